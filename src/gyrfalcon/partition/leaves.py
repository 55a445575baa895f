"""The exact solve of one leaf, and its posterior variance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.refined import RefinedSystem
from gyrfalcon.linalg.triangles import cholesky_with_jitter
from gyrfalcon.matrix import KernelMatrix

MATRICES = 3  # of rows × rows float64 numbers that the solve of one leaf holds


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
    sides = np.concatenate([Y, np.ones((len(Y), 1)), *([] if base is None else [base])], 1)
    weighted = sides if root is None else root * sides
    solved = RefinedSystem(ridged(K, root, noise), noise, rough=K.kernel.rough).solve(weighted)
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
