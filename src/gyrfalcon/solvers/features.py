"""The Nyström features Z = K T⁻¹, TᵀT = k(C, C): their second moments, in one pass over X."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas, lapack

from gyrfalcon.linalg.triangles import cholesky_with_jitter, mirror

from .problem import LeastSquares, Problem, as_numpy, noise_floor

Array = np.ndarray[Any, Any]

# Large products here are SciPy's: NumPy has a BLAS of its own, and the threads of one hinder those of the other.

KEPT_JITTER = 0.01
BLOCK_ROWS = 2048


def excess(penalty: float, jitter: float, rounding: float) -> float:
    """The multiple of ‖β‖² to take out of the objective.

    The jitter adds penalty·jitter, of which all but a hundredth goes: that keeps a curvature in null directions of
    k(C, C). Rounding stays: entries of K that are wrong by ε cost ε²‖β‖² on average, here and in every prediction, and
    the solver had better know.
    """
    return penalty * jitter * (1 - KEPT_JITTER) - rounding**2


def factor_centers(problem: Problem, entries: torch.dtype) -> tuple[Array, float, float]:
    """T, upper triangular, with TᵀT = k(C, C) + jitter·I for a K with entries of that type; the jitter; the largest
    k(c, c).
    """
    if problem.K.kernel.explicit:
        return problem.K.between_centers(), 0.0, 1.0
    with problem.timed("factor"):
        T = np.asfortranarray(problem.K.between_centers())
        scale = float(T.diagonal().max(initial=0.0))
        jitter = cholesky_with_jitter(T, noise_floor(len(T), entries) * scale)
    return T, jitter, scale


def whitened_rows(problem: LeastSquares, T: Array) -> Iterator[tuple[slice, Array, Array]]:
    """One pass over X: rows, their features √w·T⁻ᵀk(C, x) as columns, and their targets √w·y; see
    `LeastSquares.targets`.
    """
    K = problem.K
    n, m = K.shape
    roots = None if problem.weights is None else np.sqrt(as_numpy(problem.weights.double()))
    step = max(1, min(n, BLOCK_ROWS, K.memory_budget // (24 * max(1, m))))
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        with problem.timed("features"):
            Z = np.array(as_numpy(K.rows(rows) if K.dtype == torch.float64 else K.widened(rows).to_dense()))
            if roots is not None:
                Z *= roots[rows]
            Z = Z.T if K.kernel.explicit else blas.dtrsm(1.0, T, Z.T, trans_a=1, overwrite_b=1)
        targets = as_numpy(problem.targets(rows))
        yield rows, Z, np.asfortranarray(targets if roots is None else roots[rows] * targets)


def inverse_gram(T: Array) -> Array:
    """T⁻ᵀT⁻¹, which is ‖β‖² in the coordinates v = Tβ."""
    gram: Array = blas.dsyrk(1.0, np.asfortranarray(np.triu(lapack.dtrtri(T)[0])), trans=1)
    mirror(gram, from_lower=False)
    return gram


@dataclass(frozen=True)
class Features:
    """T, the moments ZᵀWZ/Σw and ZᵀW[Y, 1]/Σw, all in float64 whatever the points are, the jitter in
    TᵀT = k(C, C) + jitter·I, and the rounding of entries of K."""

    T: Array
    moments: Array
    sides: Array
    jitter: float
    rounding: float

    @classmethod
    def of(cls, problem: LeastSquares) -> Features:
        m, total = problem.K.shape[1], problem.total_weight
        T, jitter, scale = factor_centers(problem, torch.float64)
        moments = np.zeros((m, m), order="F")
        sides = np.zeros((m, problem.Y.shape[1] + int(problem.intercept)), order="F")
        for _, Z, part in whitened_rows(problem, T):
            with problem.timed("moments"):
                moments = blas.dsyrk(1 / total, Z, beta=1.0, c=moments, overwrite_c=1)
                sides = blas.dgemm(1 / total, Z, part, beta=1.0, c=sides, overwrite_c=1)
        mirror(moments, from_lower=False)
        return cls(T, moments, sides, jitter, torch.finfo(torch.float64).eps * scale)

    def leading(self, size: int) -> Features:
        """Those of the first centres alone: T is triangular, so the first features do not see the later centres."""
        T, moments = (np.asfortranarray(matrix[:size, :size]) for matrix in (self.T, self.moments))
        return Features(T, moments, self.sides[:size], self.jitter, self.rounding)

    def matrix(self, penalty: float) -> Array:
        """The moments, corrected by what the jitter adds to the penalty and by what rounding costs; see `excess`."""
        matrix = np.array(self.moments, order="F")
        if len(matrix):
            correction = inverse_gram(self.T)
            correction *= excess(penalty, self.jitter, self.rounding)
            matrix -= correction
        return matrix

    def back(self, v: Array) -> Array:
        """β = T⁻¹ v."""
        return np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(v)))
