"""Forgetting takes a share of the penalty away with the rows; here it is put back while the model is solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray[Any, Any]

CG_TOLERANCE = 1e-16
MOST_CG_STEPS = 60  # the matrix has eigenvalues between 1 and 4: half of them suffice for the last digit


def with_missing_penalty(R: Array, missing: Array, B: Array) -> Array:
    """(I + R⁻ᵀ diag(missing) R⁻¹)⁻¹ B by conjugate gradients, for an upper triangular R.

    >>> R, missing, B = np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([0.5, 0.25]), np.ones((2, 1))
    >>> U = with_missing_penalty(R, missing, B)
    >>> inverse = np.linalg.inv(R)
    >>> np.allclose((np.eye(2) + inverse.T @ np.diag(missing) @ inverse) @ U, B)
    True
    """
    lower = np.ascontiguousarray(R).T  # as LAPACK reads it, without a copy for each solve

    def product(P: Array) -> Array:
        inner = missing[:, None] * lapack.dtrtrs(lower, P, lower=1, trans=1)[0]
        return np.asarray(P + lapack.dtrtrs(lower, inner, lower=1)[0])

    U = B.copy()
    residual = B - product(U)
    direction, square = residual.copy(), np.square(residual).sum(0)
    least = CG_TOLERANCE**2 * np.square(B).sum(0)
    for _ in range(MOST_CG_STEPS):
        active = square > least
        if not active.any():
            break
        image = product(direction)
        step = np.where(active, square / np.where(active, (direction * image).sum(0), 1.0), 0.0)
        U += step * direction
        residual -= step * image
        before, square = square, np.square(residual).sum(0)
        direction = residual + np.where(active, square / np.where(active, before, 1.0), 0.0) * direction
    return U
