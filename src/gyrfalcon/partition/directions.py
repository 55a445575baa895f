"""Directions along which rows are split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from gyrfalcon.arrays import Array

from .coordinates import Coordinates, from_inputs, to_inputs

SAMPLE_ROWS = 2000  # evenly spaced rows that a direction is computed from, at most
FEW_COORDINATES = 100  # up to which the covariance matrix is made and diagonalized, which is faster than iterations
ITERATIONS = 30
_SETTLED = 1e-4  # change of the unit vector at which the iterations end

Direction: TypeAlias = Callable[[Any, Coordinates], Array]
"""Makes of some rows and the coordinates the vector a that their projections aᵀx are sorted by."""


def leading_direction(rows: Any, coordinates: Coordinates) -> Array:
    """The leading principal direction of rows in the kernel's coordinates, as a vector of inputs.

    With many coordinates it comes from power iterations that start from the feature of the largest variance, so that
    nothing is drawn at random; where the leading eigenvalues are close, any direction between theirs is as good.

    Parameters
    ----------
    rows : array or CSR of shape (n, d)
    coordinates : array

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0, 1.0], [4.0, 0.0], [8.0, 1.0]])
    >>> np.abs(leading_direction(rows, np.ones(2))).round(3)
    array([1., 0.])
    """
    sample, coordinates = _sample(rows), unit_peak(coordinates)
    if len(coordinates) <= FEW_COORDINATES:
        return np.asarray(unit_peak(to_inputs(coordinates, _leading_eigenvector(sample, coordinates))))
    ones = np.full(sample.shape[0], 1 / sample.shape[0])
    mean = np.asarray(sample.T @ ones)

    def spread_along(direction: Array) -> Array:
        """The covariance matrix of the coordinates times a direction, up to a factor."""
        inputs = to_inputs(coordinates, direction)
        projected = np.asarray(sample @ inputs) - mean @ inputs
        projected /= np.abs(projected).max(initial=0.0) or 1.0
        return from_inputs(coordinates, np.asarray(sample.T @ projected) - mean * projected.sum())

    direction = spread_along(_widest(sample, mean, coordinates))
    for _ in range(ITERATIONS):
        length = np.linalg.norm(direction)
        if not 0 < length < np.inf:
            break
        before, direction = direction / length, spread_along(direction / length)
        if np.linalg.norm(direction / (np.linalg.norm(direction) or 1.0) - before) < _SETTLED:
            break
    return np.asarray(unit_peak(to_inputs(coordinates, direction)))


def _leading_eigenvector(sample: Any, coordinates: Coordinates) -> Array:
    """Of the covariance matrix of few coordinates, with its largest entry positive."""
    rows = np.asarray(sample.todense()) if sparse.issparse(sample) else sample
    Z = rows * coordinates if coordinates.ndim == 1 else rows @ coordinates.T
    Z = unit_peak(Z - Z.mean(0))  # whose squares do not vanish
    vector: Array = np.linalg.eigh(Z.T @ Z)[1][:, -1]
    return np.asarray(vector * np.sign(vector[np.argmax(np.abs(vector))]))


def unit_peak(values: Any) -> Any:
    """Numbers in units of the largest of them, so that their squares do not overflow."""
    peak = float(abs(values).max())
    return values / peak if 0 < peak < np.inf else values


def _sample(rows: Any) -> Any:
    step = -(-rows.shape[0] // SAMPLE_ROWS)
    return unit_peak(rows[::step].astype(np.float64))


def _widest(sample: Any, mean: Array, coordinates: Coordinates) -> Array:
    """The unit vector of the coordinate that varies most."""
    if coordinates.ndim == 2:
        varied = np.asarray(sample @ coordinates.T).var(0)
    elif sparse.issparse(sample):
        varied = coordinates**2 * (np.asarray(sample.multiply(sample).mean(0)).ravel() - mean**2)
    else:
        varied = coordinates**2 * ((sample - mean) ** 2).mean(0)
    unit = np.zeros(len(varied))
    unit[int(np.argmax(varied))] = 1.0
    return unit


def generic_direction(rows: Any, coordinates: Coordinates) -> Array:
    """A direction that depends on nothing but the number of features, along which rows that differ have no ties."""
    random = np.random.default_rng(0)
    return np.asarray(unit_peak(to_inputs(unit_peak(coordinates), random.normal(size=len(coordinates)))))
