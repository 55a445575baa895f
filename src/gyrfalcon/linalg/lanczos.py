"""Traces of functions of a matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def log_quadrature(operator: Callable[[Array], Array], probes: Array, steps: int) -> float:
    """The mean over the probes of vᵀ log(A) v, which is log det A on average, for a symmetric positive definite A.

    Each probe starts a Lanczos recurrence, all in step so that one application of the operator serves them all. The
    recurrences end when none of the quadratures moves any more.

    Parameters
    ----------
    operator : callable
        V ↦ A V for a matrix of columns.
    probes : array of shape (m, q)
        Columns with independent entries of mean zero and variance one.
    steps : int
        At most.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.lanczos import log_quadrature
    >>> diagonal = np.array([[1.0], [2.0], [4.0]])
    >>> round(log_quadrature(lambda v: diagonal * v, np.ones((3, 1)), steps=3), 4), round(np.log(8), 4)
    (2.0794, np.float64(2.0794))
    """
    m = len(probes)
    norms = np.linalg.norm(probes, axis=0)
    basis = [probes / norms]
    diagonal: list[Array] = []
    beside: list[Array] = []
    value = np.inf
    for _ in range(min(steps, m)):
        image = operator(basis[-1])
        diagonal.append(np.einsum("ij,ij->j", basis[-1], image))
        for known in basis:  # against all, twice: rounding would bring converged directions back
            image = image - known * np.einsum("ij,ij->j", known, image)
        for known in basis:
            image = image - known * np.einsum("ij,ij->j", known, image)
        last, value = value, _quadrature(diagonal, beside, norms)
        if abs(value - last) <= 1e-10 * (1 + abs(value)):
            break
        length = np.linalg.norm(image, axis=0)
        beside.append(length)
        basis.append(image / np.where(length > 0, length, 1.0))
    return float(value)


def _quadrature(diagonal: list[Array], beside: list[Array], norms: Array) -> float:
    a, b = np.stack(diagonal, 1), np.stack(beside, 1) if beside else np.zeros((len(norms), 0))
    total = 0.0
    for row, off, norm in zip(a, b, norms, strict=True):
        values, vectors = np.linalg.eigh(np.diag(row) + np.diag(off, 1) + np.diag(off, -1))
        kept = values > 0
        total += norm**2 * float(vectors[0, kept] ** 2 @ np.log(values[kept]))
    return total / len(norms)
