"""Inputs in units of a kernel's length scales: the coordinates in which rows are near to each other or far."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel, Mapped

Coordinates: TypeAlias = Array
"""A vector s for z = s ∘ x, or a matrix A for z = A x."""


def coordinates_of(kernel: Kernel, X: Any) -> Coordinates:
    """The linear map of the inputs that a kernel measures distances by.

    The inverse of the length scales, after the kernel's linear map if it has one. Parts of sums and products are put
    side by side. For a kernel that has neither, the inverse of the spread of each feature.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR of shape (n, d)

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> coordinates_of(gf.kernels.Gaussian([2.0, 4.0]), np.zeros((1, 2)))
    array([0.5 , 0.25])
    >>> coordinates_of(gf.kernels.Mapped(gf.kernels.Gaussian(2.0), [[1.0, -1.0]]), np.zeros((1, 2)))
    array([[ 0.5, -0.5]])
    """
    found = _of(kernel, X.shape[1])
    return _inverse_spread(X) if found is None else found


def _of(kernel: Kernel, features: int) -> Coordinates | None:
    if isinstance(kernel, Mapped):
        matrix = as_numpy(kernel.matrix, np.float64)
        inner = _of(kernel.kernel, len(matrix))
        return matrix if inner is None else inner[:, None] * matrix if inner.ndim == 1 else inner @ matrix
    parts = [part for part in (_of(child, features) for _, child in kernel.children()) if part is not None]
    if parts:
        if all(part.ndim == 1 for part in parts):
            return np.asarray(np.sqrt(sum(part**2 for part in parts)))
        return np.concatenate([np.diag(part) if part.ndim == 1 else part for part in parts])
    scale = getattr(kernel, "length_scale", None)
    return None if scale is None else np.broadcast_to(1 / as_numpy(scale, np.float64), (features,))


def _inverse_spread(X: Any) -> Array:
    if sparse.issparse(X):
        mean = np.asarray(X.mean(0), dtype=np.float64).ravel()
        spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(0), dtype=np.float64).ravel() - mean**2, 0))
    else:
        spread = X.std(0, dtype=np.float64)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)


def to_inputs(coordinates: Coordinates, direction: Array) -> Array:
    """The vector a with aᵀx = directionᵀz."""
    return direction * coordinates if coordinates.ndim == 1 else direction @ coordinates


def from_inputs(coordinates: Coordinates, vector: Array) -> Array:
    """The coordinates of a vector of inputs."""
    return vector * coordinates if coordinates.ndim == 1 else coordinates @ vector
