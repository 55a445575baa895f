"""Which rows are held out in turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array

Places = slice | Tensor
"""Which rows: neighbors as a slice, which copies nothing."""


@dataclass(frozen=True, eq=False)
class Folds:
    """A number for each row, and the numbers whose rows are held out in turn.

    Parameters
    ----------
    labels : array of ints of shape (n,)
    held : tuple of ints

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.tuning import Folds
    >>> Folds(np.array([0, 0, 1]), held=(1, 2)).sides  # nothing has the number 2
    [(slice(2, 3, None), slice(0, 2, None))]
    """

    labels: Array
    held: tuple[int, ...]

    @cached_property
    def sides(self) -> list[tuple[Places, Places]]:
        """The rows that are held out and the others, for each fold that has rows on both sides."""
        both = [(_places(self.labels == number), _places(self.labels != number)) for number in self.held]
        return [(out, kept) for out, kept in both if out is not None and kept is not None]


def _places(chosen: Array) -> Places | None:
    places = np.flatnonzero(chosen)
    if len(places) == 0:
        return None
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else torch.from_numpy(places)
