"""Products shared by several devices of one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from .autograd import Weights
from .engine import Engine, Work, add_up

T = TypeVar("T")


class SplitEngine(Engine):
    """Engines that have a share of the rows each, on a device each, and work at the same time.

    Vectors are sent to every device and results come back to main memory. Sums over devices are taken in their order
    and in float64, so results are the same to the bit from run to run. Derivatives are not shared: `whole`, an engine
    for all rows in main memory, makes them.
    """

    name = "split"

    def __init__(self, parts: Sequence[Engine], whole: Callable[[], Engine]):
        one = parts[0]
        self._whole = whole
        n = sum(part.shape[0] for part in parts)
        super().__init__(one.kernel, (n, one.shape[1]), one.dtype, torch.device("cpu"), one.budget * len(parts))
        ends = accumulate((part.shape[0] for part in parts), initial=0)
        self.shares = [(slice(*ends), part) for ends, part in zip(pairwise(ends), parts, strict=True)]

    def _each(self, work: Callable[[slice, Engine], T]) -> list[T]:
        """What the work returns for each share, in their order, done in a thread for each."""

        def without_record(rows: slice, part: Engine) -> T:
            with torch.no_grad():  # a thread of its own does not know that the caller has said so
                return work(rows, part)

        with ThreadPoolExecutor(len(self.shares), "gyrfalcon-device") as pool:
            pending = [pool.submit(without_record, *share) for share in self.shares]
            return [share.result() for share in pending]

    def block(self, start: int, stop: int) -> Tensor:
        parts = [self._zeros(0, self.shape[1])]
        for rows, part in self.shares:
            first, last = max(start, rows.start) - rows.start, min(stop, rows.stop) - rows.start
            if first < last:
                parts.append(part.block(first, last).to(self.device))
        return torch.cat(parts)

    def multiply(self, V: Tensor) -> Tensor:
        out = self._zeros(self.shape[0], V.shape[1])

        def work(rows: slice, part: Engine) -> None:
            out[rows] = part.multiply(V.to(part.device)).to(self.device)

        self._each(work)
        return out

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        return self._sum(lambda rows, part: part.multiply_transposed(W[rows].to(part.device), dtype), dtype)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._sum(
            lambda rows, part: part.multiply_gram(V.to(part.device), _share(weights, rows, part), dtype), dtype
        )

    def gram(self, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._sum(lambda rows, part: part.gram(_share(weights, rows, part), dtype), dtype)

    def wide(self, start: int, stop: int) -> Tensor:
        return self._whole().wide(start, stop)

    def reduce(self, work: Work, columns: Sequence[Tensor | None], rows: int) -> tuple[Array, ...]:
        return add_up(
            iter(self._each(lambda some, part: part.reduce(work, [_share(c, some, part) for c in columns], rows)))
        )

    def _own_diagonal(self) -> Array:
        return np.concatenate(self._each(lambda rows, part: part.prior_diagonal()))

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        return self._whole().derivatives(rows, weights, wanted)

    def _sum(self, work: Callable[[slice, Engine], Tensor], dtype: torch.dtype) -> Tensor:
        first, *others = self._each(work)
        total = first.to(self.device, torch.float64, copy=True)
        for other in others:
            total += other.to(self.device)
        return total.to(dtype)


def _share(columns: Tensor | None, rows: slice, part: Engine) -> Tensor | None:
    return None if columns is None else columns[rows].to(part.device)
