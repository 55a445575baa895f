"""What Newton's method prepares from K, and the space that it works in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.triangles import TrianglePair
from gyrfalcon.matrix import KernelMatrix

from ..falkon.equations import factor
from ..solver import Solver, State, check_number
from ..stopping import check_count

WHITENED_ENTRIES = 30_000_000  # of K, up to which products in the coordinates are those with one stored matrix
DENSE_BYTES = 16  # for each entry of K that is kept whole: itself, and a factor of a multiple of it


class Factored(NamedTuple):
    """Falkon's triangles with the part of their jitter that the penalty is to be freed of, the largest k(c, c), and for
    few entries T⁻ᵀKᵀ, which saves solves and kernel products."""

    pair: TrianglePair
    removable: float
    scale: float
    whitened: Array | None


class NewtonState(State):
    """k(X, X) where all points are centers and it fits the budget, and else Falkon's triangles. Made when needed."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        explicit = K.kernel.explicit
        whole = K.symmetric and not explicit and K.kernel.positive_definite and not K.streamed
        self.keeps_all = whole and K.device.type == "cpu" and DENSE_BYTES * K.shape[0] ** 2 <= K.memory_budget
        self._dense: Array | None = None
        self._factored: Factored | None = None
        if self.keeps_all:
            self.dense()
        else:
            self.factored()

    def dense(self) -> Array:
        """k(X, X) in float64."""
        if self._dense is None:
            with self.timed("factor"):
                self._dense = self.K.between_centers()
        return self._dense

    def factored(self) -> Factored:
        """The triangles."""
        if self._factored is None:
            K = self.K
            with self.timed("factor"):
                pair, removable, scale = factor(K)
                whitened: Array | None = None
                n, m = K.shape
                small = n * m <= WHITENED_ENTRIES and 16 * n * m <= K.memory_budget
                wide = K.dtype == torch.float64 and K.device.type == "cpu"  # others round, which has to be noticed
                if small and wide and not K.streamed:
                    whitened = pair.solve_t_transposed(K.wide_block(slice(0, n)).T)
                self._factored = Factored(pair, removable, scale, whitened)
        return self._factored


@dataclass(frozen=True)
class NewtonSolver(Solver[NewtonState]):
    """What solvers by Newton steps share: how far they go, and what they prepare."""

    tolerance: float
    max_iterations: int

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance)
        check_count("max_iterations", self.max_iterations)

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> NewtonState:
        return NewtonState(K, weights, intercept)
