"""Two triangular factors in one square buffer, and solves with either: what preconditions Falkon."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

Array = np.ndarray[Any, Any]

_STRIP = 256  # columns mirrored at a time


class SingularError(ArithmeticError):
    """A matrix that stays numerically singular however much is added to its diagonal."""


def cholesky_with_jitter(matrix: Array, jitter: float, *, lower: bool = False) -> float:
    """Factor in place the given triangle of a Fortran-ordered matrix plus jitter·I; the other triangle is kept.

    If that is not numerically positive definite the jitter grows tenfold until it is. Returns the jitter used.
    """
    diagonal = matrix.diagonal().copy()
    scale = float(np.max(np.abs(diagonal), initial=0.0)) or 1.0
    if not np.isfinite(scale):
        raise SingularError("the matrix is not finite")
    potrf = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    while True:
        np.fill_diagonal(matrix, diagonal + jitter)
        _, failed = potrf(matrix, lower=lower, overwrite_a=1, clean=0)
        if failed == 0:
            return jitter
        if not jitter < 0.1 * scale:
            raise SingularError("the matrix is not finite, or far from positive definite")
        np.fill_diagonal(matrix, diagonal)
        mirror(matrix, from_lower=not lower)  # what the failed attempt left of this triangle is not the matrix any more
        jitter = max(10 * jitter, float(np.finfo(matrix.dtype).eps) * scale)


def mirror(matrix: Array, *, from_lower: bool) -> None:
    """Copy one strict triangle onto the other, in strips, without a second matrix."""
    source = matrix if from_lower else matrix.T
    size = len(matrix)
    for start in range(0, size, _STRIP):
        stop = min(size, start + _STRIP)
        source[start:stop, stop:] = source[stop:, start:stop].T
        corner = source[start:stop, start:stop]
        rows, columns = np.tril_indices(stop - start, -1)
        corner[columns, rows] = corner[rows, columns]


class TrianglePair:
    """T, with TᵀT = K + jitter·I, and A, with AᵀA = T diag(w) Tᵀ / m + penalty·I, both upper triangular.

    T lies in the upper triangle of one m × m buffer and Aᵀ in its lower one; the buffer's diagonal is lent to
    whichever is solved with. K itself is overwritten.

    Parameters
    ----------
    kernel_matrix : array of shape (m, m)
        K, symmetric; used as the buffer if Fortran-ordered.
    penalty : float or None
        None leaves A to be made by `refactor` or `refactor_from`.
    jitter : float
        What is added to the diagonal of K; more if K is not positive definite even then.
    weights : array of shape (m,), optional
        w; one if not given.
    centered : float
        How much of T11ᵀTᵀ / m², from 0 to 1, is taken out of A: for problems with an intercept.
    """

    def __init__(
        self,
        kernel_matrix: Array,
        penalty: float | None,
        jitter: float,
        weights: Array | None = None,
        *,
        centered: float = 0.0,
    ):
        self.buffer = np.asfortranarray(kernel_matrix)
        self.size = len(self.buffer)
        self.jitter = cholesky_with_jitter(self.buffer, jitter)
        self._diagonal_t = self.buffer.diagonal().copy()
        self.diagonal_a = self._diagonal_t
        if penalty is not None:
            self.refactor(penalty, weights, centered=centered)

    def refactor(self, penalty: float, weights: Array | None = None, *, centered: float = 0.0) -> None:
        """Make A again for another penalty or other weights; T is kept."""
        buffer = self.buffer
        mean = self.multiply_t(np.full((self.size, 1), 1 / max(1, self.size)))[:, 0]
        np.fill_diagonal(buffer, self._diagonal_t)
        mirror(buffer, from_lower=False)
        if weights is not None:  # rows of Tᵀ times the roots of the weights, in the lower triangle only
            scale = np.sqrt(weights)
            for start in range(0, self.size, _STRIP):
                stop = min(self.size, start + _STRIP)
                buffer[stop:, start:stop] *= scale[stop:, None]
                corner = buffer[start:stop, start:stop]
                corner[:] = np.where(np.tri(stop - start, dtype=bool), corner * scale[start:stop, None], corner)
        lauum = lapack.slauum if buffer.dtype == np.float32 else lapack.dlauum
        lauum(buffer, lower=1, overwrite_c=1)
        self._scale_lower(1 / self.size)
        if centered:
            syr = blas.ssyr if buffer.dtype == np.float32 else blas.dsyr
            syr(-centered, mean, lower=1, a=buffer, overwrite_a=1)
        upper_diagonal = buffer.diagonal() + penalty
        np.fill_diagonal(buffer, upper_diagonal)
        self._factor_lower()
        self.diagonal_a = buffer.diagonal().copy()

    def refactor_from(self, moments: Array, penalty: float) -> None:
        """Make A again with AᵀA = moments + penalty·I, given the lower triangle of the moments; T is kept."""
        for start in range(0, self.size, _STRIP):
            stop = min(self.size, start + _STRIP)
            self.buffer[stop:, start:stop] = moments[stop:, start:stop]
            corner = self.buffer[start:stop, start:stop]
            corner[:] = np.where(np.tri(stop - start, dtype=bool), moments[start:stop, start:stop], corner)
        np.fill_diagonal(self.buffer, moments.diagonal() + penalty)
        self._factor_lower()
        self.diagonal_a = self.buffer.diagonal().copy()

    def upper(self) -> Array:
        """The buffer with T in its upper triangle, until the next call."""
        np.fill_diagonal(self.buffer, self._diagonal_t)
        return self.buffer

    def _scale_lower(self, factor: float) -> None:
        for start in range(0, self.size, _STRIP):
            stop = min(self.size, start + _STRIP)
            self.buffer[stop:, start:stop] *= factor
            corner = self.buffer[start:stop, start:stop]
            corner[:] = np.where(np.tri(stop - start, dtype=bool), corner * factor, corner)

    def _factor_lower(self) -> None:
        potrf = lapack.spotrf if self.buffer.dtype == np.float32 else lapack.dpotrf
        _, failed = potrf(self.buffer, lower=1, overwrite_a=1, clean=0)
        if failed:
            raise SingularError("AᵀA is not positive definite: raise the penalty")

    def _solve(self, vectors: Array, *, of_a: bool, transposed: bool) -> Array:
        trsm = blas.strsm if self.buffer.dtype == np.float32 else blas.dtrsm
        np.fill_diagonal(self.buffer, self.diagonal_a if of_a else self._diagonal_t)
        right = np.array(vectors, dtype=self.buffer.dtype, order="F", copy=True)
        solved: Array = trsm(1.0, self.buffer, right, lower=of_a, trans_a=transposed != of_a, overwrite_b=1)
        return solved

    def _multiply(self, vectors: Array, *, of_a: bool) -> Array:
        trmm = blas.strmm if self.buffer.dtype == np.float32 else blas.dtrmm
        np.fill_diagonal(self.buffer, self.diagonal_a if of_a else self._diagonal_t)
        right = np.array(vectors, dtype=self.buffer.dtype, order="F", copy=True)
        product: Array = trmm(1.0, self.buffer, right, lower=of_a, trans_a=of_a, overwrite_b=1)
        return product

    def multiply_t(self, vectors: Array) -> Array:
        """T v."""
        return self._multiply(vectors, of_a=False)

    def multiply_a(self, vectors: Array) -> Array:
        """A v."""
        return self._multiply(vectors, of_a=True)

    def solve_t(self, vectors: Array) -> Array:
        """T⁻¹ v."""
        return self._solve(vectors, of_a=False, transposed=False)

    def solve_t_transposed(self, vectors: Array) -> Array:
        """T⁻ᵀ v."""
        return self._solve(vectors, of_a=False, transposed=True)

    def solve_a(self, vectors: Array) -> Array:
        """A⁻¹ v."""
        return self._solve(vectors, of_a=True, transposed=False)

    def solve_a_transposed(self, vectors: Array) -> Array:
        """A⁻ᵀ v."""
        return self._solve(vectors, of_a=True, transposed=True)
