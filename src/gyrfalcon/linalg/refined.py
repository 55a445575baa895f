"""Solving with a positive definite matrix plus noise by factors in float32, as exactly as by factors in float64."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from gyrfalcon.arrays import Array

from .positive import PositiveSystem

_NARROW_CONDITION = 1.0  # largest rows · max k(x, x) · ε / noise at which float32 factors are tried
_ROUGH_CONDITION = 100.0  # and of rough kernels, whose own eigenvalues do not come near that noise
_REFINEMENTS = 20
_SETTLED = 1e-12  # relative size of a correction that may be left where rounding ends the refinement, at least
_FEW_COLUMNS = 4  # that are multiplied one by one
_CONTRACTION = 0.25  # the largest ratio of a correction to the one before at which refinement goes on


def may_be_narrow(rows: int, peak: float, noise: float, *, rough: bool = False) -> bool:
    """Whether float32 factors are tried, given how many rows there are and the largest entry of the diagonal."""
    condition = _ROUGH_CONDITION if rough else _NARROW_CONDITION
    return rows * peak * float(np.finfo(np.float32).eps) <= condition * noise


class RefinedSystem:
    """A symmetric matrix whose eigenvalues are at least its noise, factored once, for any number of right-hand sides.

    It is factored in float32, and solutions are refined in float64, where the noise makes that safe: they are then as
    exact as factors in float64 would make them, in half the time. Elsewhere, and where the refinement does not
    converge, a `PositiveSystem` solves.

    Parameters
    ----------
    matrix : array of shape (n, n)
        In float64 and Fortran order, both triangles, the noise included; it is read by each solve and stays as it is.
    noise : float
    rough : bool
        Whether the matrix is one of a rough kernel, see `Kernel.rough`.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.refined import RefinedSystem
    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]], order="F")
    >>> RefinedSystem(matrix, noise=1.0).solve(np.array([[3.0], [0.0]])).round(12)
    array([[ 2.],
           [-1.]])
    """

    def __init__(self, matrix: Array, noise: float, *, rough: bool = False):
        self._matrix, self._noise = matrix, noise
        self._peak = float(matrix.diagonal().max(initial=0.0))
        tried = self._peak > 0 and may_be_narrow(len(matrix), self._peak, noise, rough=rough)
        self._narrow = self._factor() if tried else None
        self._wide = None if self.narrow else PositiveSystem(matrix.copy("F"))

    @property
    def narrow(self) -> bool:
        """Whether the factor is one of float32."""
        return self._narrow is not None

    def solve(self, sides: Array) -> Array:
        """The solutions, one column for each right-hand side."""
        if self._narrow is not None and (solved := self._refined(self._narrow, sides)) is not None:
            return solved
        if self._wide is None:
            self._narrow = None  # before the copy, so that no third matrix is held
            self._wide = PositiveSystem(self._matrix.copy("F"))
        return self._wide.solve(sides)

    def _factor(self) -> Array | None:
        """The factor of the matrix over its peak, or None if there is none in float32."""
        narrow = np.empty(self._matrix.shape, np.float32, order="F")
        np.divide(self._matrix, self._peak, out=narrow, casting="same_kind")
        factor, info = lapack.spotrf(narrow, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    def _refined(self, factor: Array, sides: Array) -> Array | None:
        """The solutions, or None where the refinement does not converge."""
        # What factors in float64 would leave: their rounding times the largest condition that there can be.
        settled = max(_SETTLED, float(np.finfo(float).eps) * len(factor) * self._peak / self._noise)
        scale = np.abs(sides).max(0, initial=0.0)
        scale = np.where(scale > 0, scale, 1.0)
        solved = np.zeros_like(sides)
        left = sides / scale
        before: float | None = None
        for _ in range(_REFINEMENTS):
            step = lapack.spotrs(factor, left.astype(np.float32))[0].astype(np.float64) / self._peak
            solved += step
            change, largest = (float(np.abs(values).max(initial=0.0)) for values in (step, solved))
            ratio = _CONTRACTION if before is None else change / before
            if change == 0 or change * ratio <= np.finfo(float).eps * largest:  # what the next step would change
                return np.asarray(solved * scale)
            if ratio > _CONTRACTION:  # it no longer converges: at the limit of float64, or not at all
                return np.asarray(solved * scale) if change <= settled * largest else None
            before = change
            left = sides / scale - _symmetric_product(self._matrix, solved)
        return None


def _symmetric_product(matrix: Array, columns: Array) -> Array:
    """Of a symmetric matrix with few columns, of which only one triangle is read."""
    if columns.shape[1] > _FEW_COLUMNS:
        return np.asarray(blas.dsymm(1.0, matrix, columns))
    return np.stack([blas.dsymv(1.0, matrix, column) for column in columns.T], 1)
