"""Exact solves with a positive definite matrix that is factored in place, in memory or in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from .square import Square
from .strips import Triangle
from .triangles import as_square, cholesky_with_jitter

Array = np.ndarray[Any, Any]


class CholeskySystem:
    """A x = b for a symmetric positive definite A, factored once.

    The factor U, with UᵀU = A + jitter·I, takes the upper triangle of the matrix. The lower one goes on holding A, so
    that solutions are refined against it: no second matrix is needed, nor is A made again.

    Parameters
    ----------
    matrix : array of shape (m, m) or Square
        A, both triangles of it; worked on in place if Fortran-ordered.
    ridge : float or array of shape (m,)
        What is added to the diagonal of A first.

    Attributes
    ----------
    jitter : float
        What had to be added to the diagonal for the factor, and is not part of the equations; 0 if A is numerically
        positive definite.

    Raises
    ------
    SingularError
        If no small jitter makes A positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.cholesky_system import CholeskySystem
    >>> from gyrfalcon.linalg.square import Square
    >>> x = np.linspace(0, 1, 200)
    >>> def columns(start, stop):
    ...     return np.exp(-np.abs(x[:, None] - x[start:stop]))
    >>> system = CholeskySystem(Square.fitting(200, columns, memory_budget=10**5), ridge=0.1)
    >>> solution = system.solve(np.ones(200))
    >>> np.allclose(columns(0, 200) @ solution + 0.1 * solution, 1)
    True
    """

    def __init__(self, matrix: Array | Square, *, ridge: float | Array = 0.0):
        self.square = as_square(matrix)
        self._diagonal = self.square.diagonal() + ridge
        self.square.set_diagonal(self._diagonal)
        self.jitter = cholesky_with_jitter(self.square, 0.0)
        self._factor = self.square.diagonal()

    def solve(self, right: Array, *, refinements: int = 1) -> Array:
        """x, after so many steps of iterative refinement.

        Parameters
        ----------
        right : array of shape (m,) or (m, t)
            b.
        refinements : int
            Each reads the matrix three times and makes x as accurate as its residual is in the type of A.
        """
        solution = self._solve(np.asarray(right))
        for _ in range(refinements):
            solution += self._solve(right - self.multiply(solution))
        return solution

    def multiply(self, vectors: Array) -> Array:
        """A v, the ridge included."""
        return self.square.multiply_symmetric(vectors, Triangle(lower=True, diagonal=self._diagonal))

    def _solve(self, right: Array) -> Array:
        inner = self.square.solve(right, Triangle(lower=False, transposed=True, diagonal=self._factor))
        return self.square.solve(inner, Triangle(lower=False, diagonal=self._factor))
