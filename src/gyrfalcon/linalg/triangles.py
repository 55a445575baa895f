"""Two triangular factors in one square matrix, and solves with either: what preconditions Falkon."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from .square import InMemory, Square
from .strips import Triangle
from .tiles import add_product

Array = np.ndarray[Any, Any]


class SingularError(ArithmeticError):
    """A matrix that stays numerically singular however much is added to its diagonal."""


def as_square(matrix: Array | Square) -> Square:
    """A square as it is, or one that works on an array in memory, which is copied unless it is Fortran-ordered."""
    return matrix if isinstance(matrix, Square) else InMemory(np.asfortranarray(matrix))


def cholesky_with_jitter(matrix: Array | Square, jitter: float, *, lower: bool = False) -> float:
    """Factor in place the given triangle of a Fortran-ordered matrix plus jitter·I; the other triangle is kept.

    If that is not numerically positive definite the jitter grows tenfold until it is. Returns the jitter used.
    """
    square = as_square(matrix)
    diagonal = square.diagonal()
    scale = float(np.max(np.abs(diagonal), initial=0.0)) or 1.0
    if not np.isfinite(scale):
        raise SingularError("the matrix is not finite")
    while True:
        square.set_diagonal(diagonal + jitter)
        if square.factor(lower=lower):
            return jitter
        if not jitter < 0.1 * scale:
            raise SingularError("the matrix is not finite, or far from positive definite")
        square.set_diagonal(diagonal)
        square.mirror(from_lower=not lower)  # what the failed attempt left of this triangle is not the matrix any more
        jitter = max(10 * jitter, float(np.finfo(square.dtype).eps) * scale)


def mirror(matrix: Array | Square, *, from_lower: bool) -> None:
    """Copy one strict triangle onto the other, without a second matrix."""
    as_square(matrix).mirror(from_lower=from_lower)


class TrianglePair:
    """T, with TᵀT = K + jitter·I, and A, with AᵀA = T diag(w) Tᵀ / m + penalty·I, both upper triangular.

    T lies in the upper triangle of one m × m matrix and Aᵀ in its lower one; their diagonals are kept aside. K itself
    is overwritten.

    Parameters
    ----------
    kernel_matrix : array of shape (m, m) or Square
        K, symmetric; worked on in place if Fortran-ordered. A square in a file, as `Square.fitting` makes it when K
        would not fit a budget, is worked on in tiles that do.
    penalty : float or None
        None leaves A to be made by `refactor`, `refactor_from` or `refactor_from_products`.
    jitter : float
        What is added to the diagonal of K; more if K is not positive definite even then.
    weights : array of shape (m,), optional
        w; one if not given.
    centered : float
        How much of T11ᵀTᵀ / m², from 0 to 1, is taken out of A: for problems with an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.square import Square
    >>> from gyrfalcon.linalg.triangles import TrianglePair
    >>> x = np.linspace(0, 1, 200)
    >>> def columns(start, stop):
    ...     return np.exp(-np.abs(x[:, None] - x[start:stop]))
    >>> pair = TrianglePair(Square.fitting(200, columns, memory_budget=10**5), penalty=1e-3, jitter=0.0)
    >>> inner, coefficients = pair.solve_both(np.ones((200, 1)))  # the file is read once for both
    >>> np.allclose(pair.multiply_a(pair.multiply_t(coefficients)), 1)
    True
    """

    def __init__(
        self,
        kernel_matrix: Array | Square,
        penalty: float | None,
        jitter: float,
        weights: Array | None = None,
        *,
        centered: float = 0.0,
    ):
        self.square = as_square(kernel_matrix)
        self.size = len(self.square)
        self.jitter = cholesky_with_jitter(self.square, jitter)
        self._diagonal_t = self.square.diagonal()
        self.diagonal_a = self._diagonal_t
        if penalty is not None:
            self.refactor(penalty, weights, centered=centered)

    @property
    def buffer(self) -> Array:
        """The matrix that both triangles share, or its memory map."""
        return self.square.array

    def refactor(self, penalty: float, weights: Array | None = None, *, centered: float = 0.0) -> None:
        """Make A again for another penalty or other weights; T is kept."""
        square, size = self.square, self.size
        mean = self.multiply_t(np.full((size, 1), 1 / max(1, size)))[:, 0] if centered else None
        square.set_diagonal(self._diagonal_t)
        square.mirror(from_lower=False)
        if weights is not None:  # rows of Tᵀ times the roots of the weights
            roots = np.sqrt(weights)
            square.change_lower(lambda block, rows, columns: np.multiply(block, roots[rows, None], out=block))
        square.square_lower()

        def finish(block: Array, rows: slice, columns: slice) -> None:
            block /= size
            if mean is not None and block.size:
                add_product(block, mean[rows, None], mean[None, columns], -centered)

        square.change_lower(finish)
        self._factor_lower(square.diagonal() + penalty)

    def refactor_from(self, moments: Array | Square, penalty: float) -> None:
        """Make A again with AᵀA = moments + penalty·I, given the lower triangle of the moments; T is kept."""
        given = moments.block if isinstance(moments, Square) else partial(_part, moments)
        self.square.change_lower(lambda block, rows, columns: np.copyto(block, given(rows, columns)))
        self._factor_lower(self.square.diagonal() + penalty)

    def refactor_from_products(self, terms: Iterable[tuple[float, Array]], penalty: float) -> None:
        """Make A again with AᵀA = Σ fᵢ ZᵢZᵢᵀ + penalty·I; T is kept.

        Parameters
        ----------
        terms : iterable of (float, array of shape (m, k))
            fᵢ and Zᵢ. What makes them may solve and multiply with T meanwhile, but not with A.
        penalty : float
        """
        square = self.square
        square.change_lower(lambda block, rows, columns: block.fill(0))
        diagonal = np.zeros(self.size, dtype=square.dtype)
        for factor, features in terms:
            square.set_diagonal(diagonal)
            square.add_gram(features, factor)
            diagonal = square.diagonal()
        self._factor_lower(diagonal + penalty)

    def upper(self) -> Array:
        """The buffer with T in its upper triangle, until the next call.

        Of a memory map all pages that are looked at stay in memory: solve with T by methods of the pair instead.
        """
        self.square.set_diagonal(self._diagonal_t)
        return self.buffer

    def _factor_lower(self, diagonal: Array) -> None:
        self.square.set_diagonal(diagonal)
        if not self.square.factor(lower=True):
            raise SingularError("AᵀA is not positive definite: raise the penalty")
        self.diagonal_a = self.square.diagonal()

    def _t(self, *, transposed: bool = False) -> Triangle:
        return Triangle(lower=False, transposed=transposed, diagonal=self._diagonal_t)

    def _a(self, *, transposed: bool = False) -> Triangle:
        return Triangle(lower=True, transposed=not transposed, diagonal=self.diagonal_a)

    def multiply_t(self, vectors: Array) -> Array:
        """T v."""
        return self.square.multiply(vectors, self._t())

    def multiply_a(self, vectors: Array) -> Array:
        """A v."""
        return self.square.multiply(vectors, self._a())

    def solve_t(self, vectors: Array) -> Array:
        """T⁻¹ v."""
        return self.square.solve(vectors, self._t())

    def solve_t_transposed(self, vectors: Array) -> Array:
        """T⁻ᵀ v."""
        return self.square.solve(vectors, self._t(transposed=True))

    def solve_a(self, vectors: Array) -> Array:
        """A⁻¹ v."""
        return self.square.solve(vectors, self._a())

    def solve_a_transposed(self, vectors: Array) -> Array:
        """A⁻ᵀ v."""
        return self.square.solve(vectors, self._a(transposed=True))

    def solve_both(self, vectors: Array) -> tuple[Array, Array]:
        """A⁻¹ v and T⁻¹A⁻¹ v; a matrix in a file is read once for both."""
        return self.square.solve_in_turn(vectors, self._a(), self._t())

    def solve_both_transposed(self, vectors: Array, plus: Array | None = None) -> Array:
        """A⁻ᵀ(T⁻ᵀ v + plus); a matrix in a file is read once for both."""
        return self.square.solve_in_turn(vectors, self._t(transposed=True), self._a(transposed=True), plus)[1]


def _part(matrix: Array, rows: slice, columns: slice) -> Array:
    part: Array = matrix[rows, columns]
    return part
