"""How sure a fitted regression is: the standard deviation of the Nyström posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import blas

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.triangles import cholesky_with_jitter

_BLOCK = 64 << 20  # bytes of k(x, C) looked at together


class Posterior:
    """The variance of f(x) under a Gaussian process with prior k, seen through the centers, noise = penalty·Σw.

    In units of the prior variance, with TᵀT = k(C, C), u = T⁻ᵀ k(C, x) and AᵀA = ZᵀWZ/Σw + penalty·I, Z = K T⁻¹, it is
    k(x, x) - ‖u‖² + penalty·‖A⁻ᵀu‖².

    Parameters
    ----------
    T, moments : arrays of shape (m, m), in Fortran order
        T and ZᵀWZ/Σw.
    penalty : float
    """

    def __init__(self, T: Array, moments: Array, penalty: float):
        self.T, self.A, self.penalty = T, np.array(moments, order="F"), penalty
        np.fill_diagonal(self.A, self.A.diagonal() + penalty)
        cholesky_with_jitter(self.A, 0.0)

    def variance(self, rows: Callable[[slice], Array], diagonal: Array) -> Array:
        """Variances of points, given the rows k(x, C) by slices and the values k(x, x)."""
        out = np.empty(len(diagonal))
        step = max(1, _BLOCK // max(1, 8 * len(self.T)))
        for start in range(0, len(out), step):
            at = slice(start, min(len(out), start + step))
            u = self._whitened(rows(at))
            explained = np.einsum("ij,ij->j", u, u)
            left = self._left(u)
            out[at] = diagonal[at] - explained + self.penalty * np.einsum("ij,ij->j", left, left)
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

    def _whitened(self, rows: Array) -> Array:
        u = np.asfortranarray(rows.T, dtype=np.float64)
        return np.asarray(blas.dtrsm(1.0, self.T, u, trans_a=1, overwrite_b=1))

    def _left(self, u: Array) -> Array:
        return np.asarray(blas.dtrsm(1.0, self.A, u, trans_a=1, overwrite_b=1))
