"""Every number of centres and every penalty, for little more than the price of the largest solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from .direct import from_features, solve_positive
from .features import Features, excess
from .part_moments import Moments, PartMoments
from .problem import LeastSquares
from .solution import Solution
from .stopping import Split, check_count

Array = np.ndarray[Any, Any]

SIZES, PENALTIES = 50, 20
SMALLEST = 10  # centres, where the sizes are not given


@dataclass(frozen=True)
class NystromPath:
    """Validation errors of shape (sizes, penalties), and the solution for each.

    Attributes
    ----------
    sizes : array of ints
    penalties : array of floats
    errors : array of shape (sizes, penalties)
        Mean squared errors on rows that were held out.
    deviations : array of shape (sizes, penalties)
        Their standard deviation over the folds; zero for a single one.
    """

    sizes: Array
    penalties: Array
    errors: Array
    deviations: Array
    problem: LeastSquares = field(repr=False)
    features: Features = field(repr=False)

    @property
    def best(self) -> tuple[int, float]:
        """The number of centres and the penalty of the lowest error."""
        return self._pair(np.unravel_index(np.argmin(self.errors), self.errors.shape))

    def smallest(self, slack: float = 0.01) -> tuple[int, float]:
        """The fewest centres with which the error is within a part `slack` of the lowest, and the penalty for them.

        What a model costs to evaluate is proportional to its centres.
        """
        if not 0 <= slack < np.inf:
            raise ValueError(f"slack must be a number, zero or more, got {slack!r}")
        near = self.errors.min(1) <= (1 + slack) * self.errors.min()
        row = int(np.argmax(near))
        return self._pair((row, np.argmin(self.errors[row])))

    def _pair(self, place: Sequence[Any]) -> tuple[int, float]:
        return int(self.sizes[place[0]]), float(self.penalties[place[1]])

    def solution(self, size: int | None = None, penalty: float | None = None) -> Solution:
        """What `direct` finds with the first `size` centres and that penalty on all rows; the best if not given.

        No pass over X is made; any size up to the number of centres and any penalty will do, on the grid or not.
        """
        size = self.best[0] if size is None else size
        if not 1 <= size <= len(self.features.T):
            raise ValueError(f"size must lie between 1 and the {len(self.features.T)} centres, got {size!r}")
        penalty = self.best[1] if penalty is None else penalty
        return from_features(self.problem.at(C=self.problem.K.C[:size], penalty=penalty), self.features.leading(size))


def nystrom_path(
    problem: LeastSquares,
    *,
    sizes: int | Sequence[int] = SIZES,
    penalties: int | Sequence[float] = PENALTIES,
    validation: float | int = 0.2,
    random_state: int = 0,
) -> NystromPath:
    """Solve with the first m centres for every m of a grid and every penalty of another, in one pass over X.

    T, with TᵀT = k(C, C), is triangular, so the features of the first m centres are the first m columns of Z = K T⁻¹,
    and their moments a leading block of ZᵀZ. A Cholesky factor of ZᵀZ/n + penalty·I holds the factors of all its
    leading blocks: m³/3 operations serve all sizes at one penalty, n·m² all penalties. Held-out errors come from the
    moments of the rows held out. A hold-out costs `penalties` factorisations, k folds k times that.

    Parameters
    ----------
    problem : LeastSquares
        Its centres are added in the order in which they stand, which should be that of a shuffle or of importance;
        its penalty is not used.
    sizes : int or sequence of ints
        How many sizes, evenly spaced on a logarithmic scale up to all centres; or the sizes.
    penalties : int or sequence of floats
        How many penalties, from 1e-7 to 10 over the sum of the weights; or the penalties.
    validation : float or int
        The share of rows held out, or a number of folds.
    random_state : int
        Decides which rows are held out.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[torch.randperm(500)][:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[:40]), Y, penalty=0.0)
    >>> path = gf.solvers.nystrom_path(problem, sizes=[5, 10, 20, 40], penalties=[1e-2, 1e-4, 1e-6])
    >>> path.errors.shape
    (4, 3)
    >>> m, penalty = path.smallest()
    >>> path.solution(m, penalty).coefficients.shape == (m, 1)
    True
    """
    if validation is None:
        raise ValueError("validation must hold out rows to choose by: give a share of them or a number of folds")
    n, m = problem.K.shape
    if m == 0:
        raise ValueError("C has no rows: give at least one centre")
    grid = _sizes(sizes, m)
    moments = PartMoments.of(problem, Split.of(n, validation, random_state))
    total = moments.total()
    weights = _penalties(penalties, total.sums.weight)
    with problem.timed("path"):
        inverse = moments.inverse_gram()
        errors = []
        for training, held in moments.folds(total):
            matrix, right = training.centered(), training.sums.right_side()
            found = np.empty((len(grid), len(weights)))
            for column, penalty in enumerate(weights):
                shifted = matrix - excess(penalty, moments.jitter, moments.rounding) * inverse
                np.fill_diagonal(shifted, shifted.diagonal() + penalty)
                v = leading_solutions(shifted, right, grid)
                found[:, column] = _errors(v, training, held)
            errors.append(found)
    return NystromPath(grid, weights, np.mean(errors, 0), np.std(errors, 0), problem, moments.features(total))


def leading_solutions(matrix: Array, right: Array, sizes: Array) -> Array:
    """Solve with leading blocks of a positive definite matrix and as much of the right side, of shape (m, t).

    Of shape (m, sizes, t), zero below each size. With RᵀR = matrix, w = R⁻ᵀ right holds what R⁻ᵀ gives for every block;
    a column of w that is cut off below a size is taken by R⁻¹ to that block's solution: one triangular solve for all.
    """
    kept = np.arange(len(matrix))[:, None] < sizes
    factor, failed = lapack.dpotrf(np.asfortranarray(matrix), clean=0)
    if failed:
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


def _sizes(sizes: int | Sequence[int], m: int) -> Array:
    if isinstance(sizes, int):
        check_count("sizes", sizes)
        return np.unique(np.geomspace(m, min(SMALLEST, m), sizes).round().astype(int))
    grid = np.unique(np.asarray(sizes))
    if len(grid) == 0 or grid.dtype.kind not in "iu" or grid[0] < 1 or grid[-1] > m:
        raise ValueError(f"sizes must be integers between 1 and the {m} centres, got {sizes!r}")
    return grid


def _penalties(penalties: int | Sequence[float], total: float) -> Array:
    if isinstance(penalties, int):
        check_count("penalties", penalties)
        return np.logspace(-7, 1, penalties) / total
    grid = np.unique(np.asarray(penalties, dtype=float))
    if len(grid) == 0 or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(f"penalties must be positive numbers, got {penalties!r}")
    return grid
