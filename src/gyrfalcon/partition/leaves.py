"""The exact solve of one leaf, and its posterior variance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.positive import PositiveSystem
from gyrfalcon.linalg.triangles import cholesky_with_jitter
from gyrfalcon.matrix import KernelMatrix

MATRICES = 3  # of rows × rows float64 numbers that the solve of one leaf holds
_NARROW_CONDITION = 1.0  # largest rows · max k(x, x) · ε / noise at which float32 factors are tried
_REFINEMENTS = 20
_SETTLED = 1e-12  # relative size of a correction that may be left where rounding ends the refinement, at least
_FEW_COLUMNS = 4  # that are multiplied one by one
_CONTRACTION = 0.25  # the largest ratio of a correction to the one before at which refinement goes on


class LeafSolution(NamedTuple):
    """Coefficients of shape (rows, t), intercepts of shape (t,), and by output (Y - b)ᵀ(K + noise·W⁻¹)⁻¹(Y - b) of
    the targets themselves at the b that makes it least."""

    coefficients: Array
    intercept: Array
    energy: Array


def solve_leaf(
    K: KernelMatrix, Y: Array, base: Array | None, weights: Array | None, noise: float, *, intercept: bool
) -> LeafSolution:
    """Kernel ridge regression on all rows of a leaf, (K + noise·W⁻¹) α = Y - base - b.

    The matrix is factored in float32 and the solution refined in float64 where the noise makes that safe; it is then
    as exact as factors in float64 would make it, in half the time.

    Parameters
    ----------
    K : KernelMatrix of shape (rows, rows)
    Y : array of shape (rows, t)
    base : array of shape (rows, t), optional
        What is taken from the targets.
    weights : array of shape (rows,), optional
        All positive.
    noise : float
        The penalty times the sum of the weights of all leaves.
    intercept : bool
        Whether to fit b, which is not penalized.
    """
    outputs = Y.shape[1]
    root = None if weights is None else np.sqrt(weights)[:, None]
    matrix = ridged(K, root, noise)
    sides = np.concatenate([Y, np.ones((len(Y), 1)), *([] if base is None else [base])], 1)
    weighted = sides if root is None else root * sides
    solved = _solve_narrow(matrix, weighted, noise)
    if solved is None:
        solved = PositiveSystem(matrix).solve(weighted)
    if root is not None:
        solved *= root
    raw, ones = solved[:, :outputs], solved[:, outputs]
    alpha = raw if base is None else raw - solved[:, outputs + 1 :]
    level = raw.sum(0) / ones.sum()
    energy = np.einsum("ij,ij->j", Y, raw - np.outer(ones, level))
    offset = np.zeros(outputs)
    if intercept:  # 1ᵀα = 0
        offset = alpha.sum(0) / ones.sum()
        alpha = alpha - np.outer(ones, offset)
    return LeafSolution(np.ascontiguousarray(alpha), offset, energy)


def ridged(K: KernelMatrix, root: Array | None, noise: float) -> Array:
    """√W K √W + noise·I, in float64 and Fortran order."""
    matrix = np.asfortranarray(K.between_centers())
    if root is not None:
        matrix *= root
        matrix *= root.T
    np.fill_diagonal(matrix, matrix.diagonal() + noise)
    return matrix


def may_be_narrow(rows: int, peak: float, noise: float) -> bool:
    """Whether float32 factors are tried, given how many rows there are and the largest entry of the diagonal."""
    return rows * peak * float(np.finfo(np.float32).eps) <= _NARROW_CONDITION * noise


def _solve_narrow(matrix: Array, sides: Array, noise: float) -> Array | None:
    """The solutions by float32 factors and refinement in float64; None where that does not converge."""
    peak = float(matrix.diagonal().max(initial=0.0))
    if not may_be_narrow(len(matrix), peak, noise):
        return None
    # What factors in float64 would leave: their rounding times the largest condition that there can be.
    settled = max(_SETTLED, float(np.finfo(float).eps) * len(matrix) * peak / noise)
    scale = np.abs(sides).max(0, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)
    narrow = np.empty(matrix.shape, np.float32, order="F")
    np.divide(matrix, peak, out=narrow, casting="same_kind")
    factor, info = lapack.spotrf(narrow, clean=0, overwrite_a=1)
    if info != 0:
        return None
    solved = np.zeros_like(sides)
    left = sides / scale
    before: float | None = None
    for _ in range(_REFINEMENTS):
        step = lapack.spotrs(factor, left.astype(np.float32))[0].astype(np.float64) / peak
        solved += step
        change, largest = (float(np.abs(values).max(initial=0.0)) for values in (step, solved))
        ratio = _CONTRACTION if before is None else change / before
        if change == 0 or change * ratio <= np.finfo(float).eps * largest:  # what the next step would change
            return np.asarray(solved * scale)
        if ratio > _CONTRACTION:  # it no longer converges: at the limit of float64, or not at all
            return np.asarray(solved * scale) if change <= settled * largest else None
        before = change
        left = sides / scale - _symmetric_product(matrix, solved)
    return None


def _symmetric_product(matrix: Array, columns: Array) -> Array:
    """Of a symmetric matrix with few columns, of which only one triangle is read."""
    if columns.shape[1] > _FEW_COLUMNS:
        return np.asarray(blas.dsymm(1.0, matrix, columns))
    return np.stack([blas.dsymv(1.0, matrix, column) for column in columns.T], 1)


class LeafPosterior:
    """The variance of f(x) given the rows of one leaf, in units of the prior's: k(x, x) - kₓᵀ(K + noise·W⁻¹)⁻¹kₓ.

    Parameters
    ----------
    K : KernelMatrix of shape (rows, rows)
    weights : array of shape (rows,), optional
    noise : float
    """

    def __init__(self, K: KernelMatrix, weights: Array | None, noise: float):
        self._root = None if weights is None else np.sqrt(weights)[:, None]
        self._factor = ridged(K, self._root, noise)
        cholesky_with_jitter(self._factor, 0.0)

    @property
    def nbytes(self) -> int:
        return int(self._factor.nbytes)

    def variance(self, rows: Array, prior: Array) -> Array:
        """Variances of points, given k(x, X) for the rows X of the leaf, and k(x, x)."""
        sides = np.asfortranarray(rows.T if self._root is None else self._root * rows.T)
        explained = blas.dtrsm(1.0, self._factor, sides, trans_a=1, overwrite_b=1)
        return np.asarray(np.maximum(prior - np.einsum("ij,ij->j", explained, explained), 0.0))
