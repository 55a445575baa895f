"""Solving with positive semi-definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, eigh
from scipy.linalg.blas import dsymm

from .triangles import SingularError, cholesky_with_jitter

Array = np.ndarray[Any, Any]


class PositiveSystem:
    """A positive semi-definite matrix, factored once, for any number of right-hand sides.

    By Cholesky, refined once, or, where the matrix is numerically singular, by eigenvalues for the solution of least
    norm. The upper triangle of the matrix, in Fortran order, becomes the factor; the lower one is kept to refine with.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.positive import PositiveSystem
    >>> PositiveSystem(np.array([[2.0, 0.0], [0.0, 0.0]], order="F")).solve(np.array([[4.0], [0.0]])).tolist()
    [[2.0], [0.0]]
    """

    def __init__(self, matrix: Array):
        self._matrix, self._diagonal = matrix, matrix.diagonal().copy()
        self._eigen: tuple[Array, Array] | None = None
        try:
            self._factored = len(matrix) == 0 or (
                cholesky_with_jitter(matrix, 0.0) == 0 and not is_rounding(matrix, self._diagonal)
            )
        except SingularError:
            self._factored = False

    def solve(self, sides: Array) -> Array:
        """The solutions, one column for each right-hand side."""
        if len(self._matrix) == 0:
            return np.zeros_like(sides)
        if self._factored:
            solved = self._solved(sides)
            solved += self._solved(sides - self._product(solved))
            if np.isfinite(solved).all():
                return solved
        if not np.isfinite(sides).all():
            raise ValueError("array must not contain infs or NaNs")
        values, basis = self._eigenvectors()
        solution: Array = basis @ ((basis.T @ sides) / values[:, None])
        return solution

    def _solved(self, sides: Array) -> Array:
        """By the factor, whose entries are not looked at once more for what is not finite."""
        return np.asarray(cho_solve((self._matrix, False), sides, check_finite=False))

    def _product(self, vectors: Array) -> Array:
        """With the matrix itself: its lower triangle, and its diagonal, which the factor's has replaced."""
        product: Array = dsymm(1.0, self._matrix, vectors, lower=1)
        product += (self._diagonal - self._matrix.diagonal())[:, None] * vectors
        return product

    def _eigenvectors(self) -> tuple[Array, Array]:
        """The eigenvalues that are not rounding, and their vectors."""
        if self._eigen is None:
            lower = np.tril(self._matrix, -1)
            values, vectors = eigh(lower + np.diag(self._diagonal))
            kept = values > len(values) * np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny)
            self._eigen = values[kept], vectors[:, kept]
        return self._eigen


def is_rounding(factor: Array, diagonal: Array) -> bool:
    """Whether a pivot of the Cholesky factor of a matrix of that diagonal is no more than rounding, so that it might as
    well have failed.
    """
    least = float(np.min(factor.diagonal(), initial=np.inf)) ** 2
    return bool(least <= len(factor) * np.finfo(float).eps * float(np.max(diagonal, initial=0.0)))


def solve_positive(matrix: Array, sides: Array) -> Array:
    """Solve once with a positive semi-definite matrix, which is overwritten; see `PositiveSystem`."""
    return PositiveSystem(matrix).solve(sides)
