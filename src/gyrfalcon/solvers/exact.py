"""The kernel system itself, for centers that are the points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.cholesky_system import CholeskySystem
from gyrfalcon.linalg.refined import RefinedSystem
from gyrfalcon.linalg.square import Square
from gyrfalcon.linalg.triangles import SingularError
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments.whitening import not_positive
from gyrfalcon.threads import one_thread_each

from .problem import LeastSquares
from .solution import Record, Solution
from .solver import Run, Solver, State, Traits

ONE_THREAD_ROWS = 5000  # below, a factorization takes less than a second, and threads may take longer to meet
MATRICES = 2  # of n × n numbers that a solve in memory holds, at most: √W K √W, and its copy that is factored


class ExactState(State):
    """The roots of the weights, k(X, X) if the memory budget holds it, and the factors of the last penalty."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        if K.kernel.explicit:
            raise ValueError(
                f"kernel: {K.kernel!r} has features for columns, not points: solve with 'direct' or 'falkon'"
            )
        if not K.symmetric:
            raise ValueError("solver='exact' needs every distinct point as a center: raise n_centers, or choose 'auto'")
        n = K.shape[0]
        self.root = np.ones(n) if weights is None else np.sqrt(as_numpy(weights, np.float64)[:, 0])
        self._fits = 8 * MATRICES * n**2 <= K.memory_budget
        self._scaled: Array | None = None  # √W K √W, whose diagonal has the ridge of the last penalty too
        self._factored: tuple[float, RefinedSystem | CholeskySystem] | None = None

    def system(self, penalty: float) -> RefinedSystem | CholeskySystem:
        """√W K √W + penalty·Σw·I, factored: in memory, or in a temporary file if the budget is too small."""
        if self._factored is None or self._factored[0] != penalty:
            ridge = penalty * self.total_weight
            self._factored = None
            self._factored = penalty, self._in_memory(ridge) if self._fits else self._in_file(ridge)
        return self._factored[1]

    def _in_memory(self, ridge: float) -> RefinedSystem:
        small = self.K.shape[0] <= ONE_THREAD_ROWS
        return one_thread_each(self._factor)(ridge) if small else self._factor(ridge)

    def _factor(self, ridge: float) -> RefinedSystem:
        if self._scaled is None:
            self._scaled = self.K.between_centers()
            if self.weights is not None:
                self._scaled *= self.root
                self._scaled *= self.root[:, None]
            self._diagonal = self._scaled.diagonal().copy()
        np.fill_diagonal(self._scaled, self._diagonal + ridge)
        return RefinedSystem(self._scaled, ridge, rough=self.K.kernel.rough)

    def _in_file(self, ridge: float) -> CholeskySystem:
        def columns(start: int, stop: int) -> Array:
            block: Array = self.root[:, None] * among.wide_block(slice(start, stop)).T * self.root[start:stop]
            return block

        among = self.K.square
        try:
            return CholeskySystem(
                Square.fitting(self.K.shape[0], columns, memory_budget=self.K.memory_budget), ridge=ridge
            )
        except SingularError:
            raise not_positive(self.K) from None


@dataclass(frozen=True)
class Exact(Solver[ExactState]):
    """Solve (K + penalty·Σw·W⁻¹) α = Y for centers that are the points.

    In the symmetric form α = √W (√W K √W + penalty·Σw·I)⁻¹ √W Y, which admits weights of zero.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 50, dtype=torch.float64)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Laplacian(1.0), X)  # the centers are the points
    >>> problem = gf.solvers.LeastSquares(K, torch.sin(X), penalty=0.1 / 50)
    >>> solution = gf.solvers.solve(problem, gf.solvers.Exact())
    >>> K_dense = gf.kernels.Laplacian(1.0)(X)
    >>> torch.allclose(solution.coefficients, torch.linalg.solve(K_dense + 0.1 * torch.eye(50), torch.sin(X)))
    True
    """

    name: ClassVar[str] = "exact"
    traits: ClassVar[Traits] = Traits()

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> ExactState:
        return ExactState(K, weights, intercept)

    def _solve(self, state: ExactState, problem: LeastSquares, run: Run) -> Solution:
        Y, root = as_numpy(problem.Y, np.float64), state.root[:, None]
        sides = np.concatenate([Y, np.ones((len(Y), 1))], 1) if problem.intercept else Y
        with problem.timed("solve"):
            solved: Array = root * state.system(problem.penalty).solve(root * sides)
        offset = np.zeros(Y.shape[1])
        if problem.intercept:  # 1ᵀα = 0
            alpha, ones = solved[:, :-1], solved[:, -1]
            offset = alpha.sum(0) / ones.sum()
            solved = alpha - np.outer(ones, offset)
        if problem.penalty:  # what is left is penalty·Σw·W⁻¹α
            objective = problem.penalty * np.einsum("ij,ij->j", Y, solved)
        else:  # nothing, unless rows contradict each other
            values = as_numpy(state.K.widened() @ torch.from_numpy(np.ascontiguousarray(solved)).to(state.K.device))
            left = root * (values + offset - Y)
            objective = np.einsum("ij,ij->j", left, left) / problem.total_weight
        record = Record(
            solver="exact",
            message="solved by factorization",
            objective=(objective + problem.floor).tolist(),
            seconds=problem.seconds,
        )
        return Solution(torch.from_numpy(np.ascontiguousarray(solved)), torch.from_numpy(offset), record)
