"""Solving with positive semi-definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, eigh

from .triangles import SingularError, cholesky_with_jitter

Array = np.ndarray[Any, Any]


class PositiveSystem:
    """A positive semi-definite matrix, factored once, for any number of right-hand sides.

    By Cholesky, refined once, or, where the matrix is numerically singular, by eigenvalues for the solution of least
    norm. The matrix, in Fortran order, becomes the factor; a copy is kept to refine with.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.positive import PositiveSystem
    >>> PositiveSystem(np.array([[2.0, 0.0], [0.0, 0.0]], order="F")).solve(np.array([[4.0], [0.0]])).tolist()
    [[2.0], [0.0]]
    """

    def __init__(self, matrix: Array):
        self._full = matrix.copy()
        self._factor: Array | None = matrix
        try:
            if len(matrix) and (cholesky_with_jitter(matrix, 0.0) != 0 or is_rounding(matrix, self._full)):
                self._factor = None
        except SingularError:
            self._factor = None

    def solve(self, sides: Array) -> Array:
        """The solutions, one column for each right-hand side."""
        if len(self._full) == 0:
            return np.zeros_like(sides)
        if self._factor is not None:
            solved: Array = cho_solve((self._factor, False), sides)
            solved += cho_solve((self._factor, False), sides - self._full @ solved)
            if np.isfinite(solved).all():
                return solved
        values, vectors = eigh(self._full)
        kept = values > len(self._full) * np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny)
        basis = vectors[:, kept]
        solution: Array = basis @ ((basis.T @ sides) / values[kept, None])
        return solution


def is_rounding(factor: Array, matrix: Array) -> bool:
    """Whether a pivot of a Cholesky factor is no more than rounding, so that it might as well have failed."""
    least = float(np.min(factor.diagonal(), initial=np.inf)) ** 2
    return bool(least <= len(matrix) * np.finfo(float).eps * float(np.max(matrix.diagonal(), initial=0.0)))


def solve_positive(matrix: Array, sides: Array) -> Array:
    """Solve once with a positive semi-definite matrix, which is overwritten; see `PositiveSystem`."""
    return PositiveSystem(matrix).solve(sides)
