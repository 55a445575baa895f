"""The Nyström normal equations, solved by factorization after one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Sums, Whitening
from gyrfalcon.moments.moments import block_rows

from .problem import LeastSquares
from .solution import Record, Solution
from .solver import Run, Solver, State, Traits


class DirectState(State):
    """The whitening of the centers and, once targets were seen, the moments of the features.

    The first targets share the pass in which the second moments are made; others cost one product with Kᵀ, and other
    penalties for the same targets nothing at all.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> solver = gf.solvers.Direct()
    >>> state = solver.prepare(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]))
    >>> [round(solver.solve(state, X.sin(), penalty).record.objective[0], 3) for penalty in (1e-3, 1e-1)]
    [0.002, 0.143]
    """

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        with self.timed("factor"):
            self.whitening = Whitening.of(K)
        self._moments: Moments | None = None
        self._seen: tuple[Tensor, int] | None = None

    def moments(self, problem: LeastSquares) -> Moments:
        """The moments of the features and of these targets."""
        version = problem.Y._version
        if self._seen is not None and self._seen[0] is problem.Y and self._seen[1] == version:
            assert self._moments is not None
            return self._moments
        with problem.timed("moments"):
            if self._moments is None:
                origin = as_numpy(problem.mean)
                self._moments = Moments.of(self.K, problem.Y, self.weights, origin=origin, whitening=self.whitening)
            else:
                self._moments = self._with_targets(self._moments, problem)
        self._seen = problem.Y, version
        return self._moments

    def _with_targets(self, moments: Moments, problem: LeastSquares) -> Moments:
        """The same second moments with the sums of other targets, in one pass without features."""
        origin, total = as_numpy(problem.mean), self.total_weight
        cross = self.K.reduce(_Cross(origin), problem.Y, self.weights, rows=block_rows(self.K))[0]
        values = (
            as_numpy(problem.average(lambda Y: Y - problem.mean)),
            as_numpy(problem.average(lambda Y: (Y - problem.mean).square())),
        )
        sums = Sums(
            moments.sums.weight,
            moments.sums.features,
            self.whitening.pull(cross),
            total * values[0],
            total * values[1],
        )
        return Moments(self.whitening, moments.second, sums, moments.count, origin)


@dataclass(frozen=True)
class _Cross:
    """KᵀW(Y - origin) of a block, with entries in float64."""

    origin: Array

    def __call__(self, block: Array, Y: Array, weights: Array | None) -> tuple[Array, ...]:
        targets = Y.astype(np.float64) - self.origin
        return (block.T @ (targets if weights is None else weights * targets),)


@dataclass(frozen=True)
class Direct(Solver[DirectState]):
    """Solve by factorization after one pass over X, in the coordinates v = Tβ in which ‖f‖² is a sum of squares.

    With TᵀT = k(C, C) and Z = K T⁻¹ the equations are (ZᵀWZ/Σw + penalty·I) v = ZᵀWY/Σw, which are as well conditioned
    as the penalty makes them. Forming KᵀWK first would square the condition of k(C, C) on top.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> solution = gf.solvers.solve(problem, gf.solvers.Direct())
    >>> bool((problem.K @ solution.coefficients - problem.Y).abs().max() < 0.01)
    True
    """

    name: ClassVar[str] = "direct"
    traits: ClassVar[Traits] = Traits()

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> DirectState:
        return DirectState(K, weights, intercept)

    def _solve(self, state: DirectState, problem: LeastSquares, run: Run) -> Solution:
        return from_moments(problem, state.moments(problem))


def from_moments(problem: LeastSquares, moments: Moments) -> Solution:
    """The solution of `Direct` where the moments are known already."""
    with problem.timed("solve"):
        beta, offset, objective = moments.solve(problem.penalty, intercept=problem.intercept, floor=problem.floor)
    record = Record(
        solver="direct",
        message="solved by factorization",
        jitter=moments.whitening.jitter,
        objective=objective.tolist(),
        seconds=problem.seconds,
        passes=1,
    )
    return Solution(_tensor(beta), _tensor(offset), record, moments)


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))
