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
            u = np.asfortranarray(rows(at).T, dtype=np.float64)
            u = blas.dtrsm(1.0, self.T, u, trans_a=1, overwrite_b=1)
            explained = np.einsum("ij,ij->j", u, u)
            left = blas.dtrsm(1.0, self.A, u, trans_a=1, overwrite_b=1)
            out[at] = diagonal[at] - explained + self.penalty * np.einsum("ij,ij->j", left, left)
        return np.maximum(out, 0.0)
