"""How sure a fitted regression is: the standard deviation of the Nyström posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.linalg import blas, eigh, qr

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.triangles import cholesky_with_jitter

_BLOCK = 4 << 20  # bytes of k(x, C) looked at together
_LEAST_ROWS = 64  # and at least so many of them, for products of matrices to be worth their name
_ROWS_PER_CENTER = 8  # from which on the product with one triangle pays for making it (m = 300 and 1,000)


class Posterior:
    """The variance of f(x) under a Gaussian process with prior k, seen through the centers, noise = penalty·Σw.

    In units of the prior variance, with TᵀT = k(C, C), u = T⁻ᵀ k(C, x) and AᵀA = ZᵀWZ/Σw + penalty·I, Z = K T⁻¹, it is
    k(x, x) - ‖u‖² + penalty·‖A⁻ᵀu‖².

    For many points, with the eigenvectors V and eigenvalues h of ZᵀWZ/Σw, it is k(x, x) - ‖R k(C, x)‖², where RᵀR =
    T⁻¹V diag(h/(h + penalty)) VᵀT⁻ᵀ: one triangular product instead of two solves. The entries of R are far smaller
    than those of T⁻¹, since the penalty damps the directions in which k(C, C) is nearly singular.

    Parameters
    ----------
    T, moments : arrays of shape (m, m), in Fortran order
        T and ZᵀWZ/Σw.
    penalty : float
    """

    def __init__(self, T: Array, moments: Array, penalty: float):
        self.T, self.moments, self.penalty = T, moments, penalty
        self.A = np.array(moments, order="F")
        np.fill_diagonal(self.A, self.A.diagonal() + penalty)
        cholesky_with_jitter(self.A, 0.0)

    def variance(self, rows: Callable[[slice], Array], diagonal: Array) -> Array:
        """Variances of points, given the rows k(x, C) by slices and the values k(x, x)."""
        out, m = np.empty(len(diagonal)), len(self.T)
        step = max(_LEAST_ROWS, _BLOCK // max(1, 8 * m))
        explained = self._explained_by_factor if len(out) >= _ROWS_PER_CENTER * m else self._explained_by_solves
        for start in range(0, len(out), step):
            at = slice(start, min(len(out), start + step))
            out[at] = diagonal[at] - explained(np.asfortranarray(rows(at).T, dtype=np.float64))
        return np.maximum(out, 0.0)

    def covariance(self, rows: Array, prior: Array) -> Array:
        """The covariances of points, given k(x, C) and k(x, x') between all of them."""
        u = self._whitened(rows)
        found = prior - u.T @ u
        left = self._left(u)
        found += self.penalty * (left.T @ left)
        return np.asarray((found + found.T) / 2)

    def log_determinant(self) -> float:
        """log det(I + ZᵀWZ/(penalty·Σw)) = 2 Σ log Aⱼⱼ - m log penalty."""
        return float(2 * np.log(self.A.diagonal()).sum() - len(self.A) * np.log(self.penalty))

    def _explained_by_solves(self, columns: Array) -> Array:
        u = self._whitened(columns.T)
        whole = np.einsum("ij,ij->j", u, u)
        left = self._left(u)
        return np.asarray(whole - self.penalty * np.einsum("ij,ij->j", left, left))

    def _explained_by_factor(self, columns: Array) -> Array:
        image = blas.dtrmm(1.0, self._factor, columns, overwrite_b=1)
        return np.asarray(np.einsum("ij,ij->j", image, image))

    @cached_property
    def _factor(self) -> Array:
        """R, upper triangular."""
        h, V = eigh(self.moments, lower=False, driver="evd")
        h = np.maximum(h, 0.0)  # rounding may leave negative ones
        root = np.asfortranarray(V * np.sqrt(h / (h + self.penalty)))
        root = blas.dtrsm(1.0, self.T, root, overwrite_b=1)
        return np.asfortranarray(qr(root.T, mode="r", overwrite_a=True)[0])

    def _whitened(self, rows: Array) -> Array:
        u = np.asfortranarray(rows.T, dtype=np.float64)
        return np.asarray(blas.dtrsm(1.0, self.T, u, trans_a=1, overwrite_b=1))

    def _left(self, u: Array) -> Array:
        return np.asarray(blas.dtrsm(1.0, self.A, u, trans_a=1, overwrite_b=1))
