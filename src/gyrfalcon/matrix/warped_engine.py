"""Products of a warped kernel: its points are warped once, and the compiled core does the rest."""

from __future__ import annotations

from torch import Tensor

from gyrfalcon.arrays import Dense, in_double
from gyrfalcon.kernels import Kernel, Warped

from .autograd import Weights
from .engine import Engine
from .native_engine import NativeEngine


class WarpedEngine(NativeEngine):
    """The native engine of the inner kernel on warped points."""

    def __init__(self, kernel: Warped, X: Dense, C: Dense, budget: int, threads: int | None = None):
        warped = kernel.warp(X)
        super().__init__(kernel.kernel, warped, warped if C is X else kernel.warp(C), budget, threads)
        self._warped, self._given = kernel, (X, C)

    def at(self, X: Dense) -> Engine | None:
        other = super().at(self._warped.warp(X))
        if isinstance(other, WarpedEngine):
            other._given = (X, self._given[1])
        return other

    def of(self, kernel: Kernel) -> Engine | None:
        return None  # which may have another map

    def wide(self, start: int, stop: int) -> Tensor:
        X, C = (in_double(part) for part in (self._given[0][start:stop], self._given[1]))
        return WarpedEngine(self._warped, X, C, self.budget, self._threads).block(0, stop - start)

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        found = super().derivatives(rows, weights, wanted)
        for place, points in enumerate((self._given[0][rows], self._given[1])):
            part = found[place]
            if part is not None:
                found[place] = part * self._warped.slopes(points).to(part)
        return found
