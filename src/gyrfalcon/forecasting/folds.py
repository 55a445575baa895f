"""Purged blocks of time: what is held out shares no stamp with what is learned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.positive import solve_positive
from gyrfalcon.moments import Moments


def blocks_of(origins: Array, count: int, reach: int) -> tuple[Array, int]:
    """A label for each row, and the number of blocks: 2k for rows of block k, 2k + 1 for those at its end.

    The windows of two rows overlap if their origins are fewer than `reach` stamps apart. The end of a block is so long
    that windows of the block before it and of the one after it never do. There are fewer blocks where they would be too
    short for that, and at least two.

    >>> import numpy as np
    >>> blocks_of(np.arange(16), 2, 2)
    (array([0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 3]), 2)
    """
    n = len(origins)
    count = min(count, n // (4 * reach))
    if count < 2:
        raise ValueError(
            f"{n:,} windows of {reach} stamps are too few for folds that share no stamp: at least {8 * reach:,} are "
            "needed; shorten memory or horizons, or give penalty, length_scale and decay"
        )
    block = np.minimum(np.arange(n) * count // n, count - 1)
    last = origins[np.searchsorted(block, np.arange(count), side="right") - 1]
    return np.asarray(2 * block + (origins > last[block] - (reach - 1))), count


@dataclass(frozen=True)
class Folds:
    """Moments of the parts that `blocks_of` labels, and the inverse gram matrix of their whitening."""

    parts: list[Moments]
    inverse_gram: Array

    @property
    def count(self) -> int:
        return len(self.parts) // 2

    def total(self) -> Moments:
        total = self.parts[0]
        for part in self.parts[1:]:
            total = total + part
        return total

    def held_out(self) -> Iterator[tuple[Moments, Moments]]:
        """What to learn from and what is held out: a block in turn, with the ends of that block and of the one before
        it in neither."""
        total = self.total()
        for place in range(self.count):
            others = total - self.parts[2 * place] - self.parts[2 * place + 1]
            yield (others - self.parts[2 * place - 1] if place else others), self.parts[2 * place]

    def before(self, place: int) -> Moments:
        """What is known before a block, less the end of the one before it."""
        known = self.parts[0]
        for part in self.parts[1 : 2 * place - 1]:
            known = known + part
        return known

    def errors(self, penalties: Array) -> Array:
        """Sums of squared errors of rows held out, of shape (penalties, outputs)."""
        found = np.zeros((len(penalties), len(self.parts[0].origin)))
        for known, held in self.held_out():
            right, center = known.sums.right_side(), known.sums.center()
            for row, penalty in enumerate(penalties):
                V = solve_positive(known.matrix(float(penalty), inverse_gram=self.inverse_gram), right)
                found[row] += held.sums.squared_error(V, held.second @ V, center)
        return found
