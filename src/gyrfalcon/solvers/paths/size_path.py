"""Models with the first columns of K, for every size and every penalty: little more than the price of the largest."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.linalg import blas, lapack

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.positive import is_rounding, solve_positive
from gyrfalcon.moments import Moments

from ..direct import from_moments
from ..problem import LeastSquares
from ..solution import Solution
from ..stopping import Split, check_count

SIZES, PENALTIES = 50, 20
SMALLEST = 10  # where the sizes are not given


@dataclass(frozen=True)
class SizePath:
    """Validation errors of models with the first columns of K, for several sizes and penalties, and the solutions."""

    unit: ClassVar[str] = "columns"

    sizes: Array
    penalties: Array
    errors: Array
    deviations: Array
    problem: LeastSquares = field(repr=False)
    moments: Moments = field(repr=False)

    @property
    def best(self) -> tuple[int, float]:
        """The size and the penalty of the lowest error."""
        return self._pair(np.unravel_index(np.argmin(self.errors), self.errors.shape))

    def smallest(self, slack: float = 0.01) -> tuple[int, float]:
        """The smallest size with which the error is within a part `slack` of the lowest, and the penalty for it.

        What a model costs to evaluate is proportional to its size.
        """
        if not 0 <= slack < np.inf:
            raise ValueError(f"slack must be a number, zero or more, got {slack!r}")
        near = self.errors.min(1) <= (1 + slack) * self.errors.min()
        row = int(np.argmax(near))
        return self._pair((row, np.argmin(self.errors[row])))

    def _pair(self, place: Sequence[Any]) -> tuple[int, float]:
        return int(self.sizes[place[0]]), float(self.penalties[place[1]])

    def solution(self, size: int | None = None, penalty: float | None = None) -> Solution:
        """What `direct` finds with the first `size` columns and that penalty on all rows; the best if not given.

        No pass over X is made; any size up to the number of columns and any penalty will do, on the grid or not.
        """
        size = self.best[0] if size is None else size
        largest = self.moments.whitening.size
        if not 1 <= size <= largest:
            raise ValueError(f"size must lie between 1 and the {largest} {self.unit}, got {size!r}")
        problem = replace(self.problem, penalty=self.best[1] if penalty is None else penalty)
        return from_moments(problem, self.moments.leading(size))


Path = TypeVar("Path", bound=SizePath)


def trace(
    kind: type[Path],
    problem: LeastSquares,
    sizes: int | Sequence[int],
    penalties: int | Sequence[float],
    validation: float | int,
    random_state: int,
) -> Path:
    """The path of that kind, in one pass over X: a Cholesky factor holds the factors of all leading blocks."""
    if validation is None:
        raise ValueError("validation must hold out rows to choose by: give a share of them or a number of folds")
    n, m = problem.K.shape
    if m == 0:
        raise ValueError("C has no rows: give at least one")
    grid = _sizes(sizes, m, kind.unit)
    split = Split.of(n, validation, random_state)
    split.weigh(None if problem.weights is None else as_numpy(problem.weights, np.float64)[:, 0])
    with problem.timed("moments"):
        origin = as_numpy(problem.mean)
        parts = Moments.by_part(problem.K, problem.Y, problem.weights, split.labels, split.count, origin=origin)
    if not problem.intercept:
        parts = [part.without_intercept() for part in parts]
    total = sum(parts[1:], parts[0])
    weights = _penalties(penalties, total.sums.weight)
    whitening = total.whitening
    with problem.timed("path"):
        inverse = whitening.inverse_gram()
        errors = []
        for training, held in total.folds(parts, split.held):
            matrix, right = training.centered(), training.sums.right_side()
            found = np.empty((len(grid), len(weights)))
            for column, penalty in enumerate(weights):
                shifted = matrix - whitening.excess(penalty) * inverse
                np.fill_diagonal(shifted, shifted.diagonal() + penalty)
                v = leading_solutions(shifted, right, grid)
                found[:, column] = _errors(v, training, held)
            errors.append(found)
    return kind(grid, weights, np.mean(errors, 0), np.std(errors, 0), problem, total)


def leading_solutions(matrix: Array, right: Array, sizes: Array) -> Array:
    """Solve with leading blocks of a positive definite matrix and as much of the right side, of shape (m, t).

    Of shape (m, sizes, t), zero below each size. With RᵀR = matrix, w = R⁻ᵀ right holds what R⁻ᵀ gives for every block;
    a column of w that is cut off below a size is taken by R⁻¹ to that block's solution: one triangular solve for all.
    """
    kept = np.arange(len(matrix))[:, None] < sizes
    factor, failed = lapack.dpotrf(np.asfortranarray(matrix), clean=0)
    if failed or is_rounding(factor, matrix.diagonal()):
        return _one_by_one(matrix, right, sizes)
    w = blas.dtrsm(1.0, factor, np.asfortranarray(right), trans_a=1)
    cut = (kept[:, :, None] * w[:, None, :]).reshape(len(matrix), -1)
    solved = blas.dtrsm(1.0, factor, np.asfortranarray(cut), overwrite_b=1)
    return np.asarray(solved).reshape(len(matrix), len(sizes), -1)


def _one_by_one(matrix: Array, right: Array, sizes: Array) -> Array:
    """The same where the matrix is numerically singular, although smaller blocks may not be."""
    solved = np.zeros((len(matrix), len(sizes), right.shape[1]))
    for place, size in enumerate(sizes):
        solved[:size, place] = solve_positive(matrix[:size, :size].copy(order="F"), right[:size])
    return solved


def _errors(v: Array, training: Moments, held: Moments) -> Array:
    """Mean squared errors, by size, over the rows held out."""
    flat = np.asfortranarray(v.reshape(len(v), -1))
    image = np.asarray(blas.dsymm(1.0, held.second, flat)).reshape(v.shape)
    squares = held.sums.squared_error(v, image, training.sums.center())
    return np.asarray(squares.mean(-1) / held.sums.weight)


def _sizes(sizes: int | Sequence[int], m: int, unit: str) -> Array:
    if isinstance(sizes, numbers.Integral):
        check_count("sizes", sizes)
        return np.unique(np.geomspace(m, min(SMALLEST, m), sizes).round().astype(int))
    grid = np.unique(np.asarray(sizes))
    if len(grid) == 0 or grid.dtype.kind not in "iu" or grid[0] < 1 or grid[-1] > m:
        raise ValueError(f"sizes must be integers between 1 and the {m} {unit}, got {sizes!r}")
    return grid


def _penalties(penalties: int | Sequence[float], total: float) -> Array:
    if isinstance(penalties, numbers.Integral):
        check_count("penalties", penalties)
        return np.logspace(-7, 1, penalties) / total
    grid = np.unique(np.asarray(penalties, dtype=float))
    if len(grid) == 0 or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(f"penalties must be positive numbers, got {penalties!r}")
    return grid
