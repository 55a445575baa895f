"""The Nyström features Z = K T⁻¹, TᵀT = k(C, C): their second moments, in one pass over X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from gyrfalcon.linalg.triangles import cholesky_with_jitter, mirror

from .problem import LeastSquares, as_numpy, noise_floor

Array = np.ndarray[Any, Any]

KEPT_JITTER = 0.01  # the part of the jitter that stays, so that null directions of k(C, C) keep a positive curvature


@dataclass(frozen=True)
class Features:
    """T, the moments ZᵀWZ/Σw and ZᵀW[Y, 1]/Σw, all in float64, and the jitter in TᵀT = k(C, C) + jitter·I."""

    T: Array
    moments: Array
    sides: Array
    jitter: float

    @classmethod
    def of(cls, problem: LeastSquares) -> Features:
        K, total = problem.K, problem.total_weight
        n, m = K.shape
        with problem.timed("factor"):
            T = np.asfortranarray(K.between_centers())
            jitter = cholesky_with_jitter(T, noise_floor(m, K.dtype) * float(T.diagonal().max(initial=0.0)))
        moments = np.zeros((m, m), order="F")
        targets = as_numpy(problem.targets())
        sides = np.zeros((m, targets.shape[1]))
        roots = None if problem.weights is None else np.sqrt(as_numpy(problem.weights.double()))
        step = max(1, min(n, max(m, 256), K.memory_budget // (24 * max(1, m))))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            with problem.timed("features"):
                Z = np.array(as_numpy(K.rows(rows)), dtype=np.float64, order="C")
                if roots is not None:
                    Z *= roots[rows]
                Z = blas.dtrsm(1.0, T, Z.T, trans_a=1, overwrite_b=1)
            with problem.timed("moments"):
                moments = blas.dsyrk(1 / total, Z, beta=1.0, c=moments, overwrite_c=1)
                sides += Z @ (targets[rows] if roots is None else roots[rows] * targets[rows]) / total
        mirror(moments, from_lower=False)
        return cls(T, moments, sides, jitter)

    def matrix(self, penalty: float) -> Array:
        """The moments less what the jitter adds to ‖f‖² times the penalty, in Fortran order."""
        matrix = np.array(self.moments, order="F")
        if penalty > 0 and len(matrix):
            inverse, _ = lapack.dtrtri(self.T)
            inverse = np.triu(inverse)
            matrix -= (penalty * self.jitter * (1 - KEPT_JITTER)) * (inverse.T @ inverse)
        return matrix

    def back(self, v: Array) -> Array:
        """β = T⁻¹ v."""
        return np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(v)))
