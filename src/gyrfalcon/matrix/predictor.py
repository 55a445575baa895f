"""A fitted function, prepared once and evaluated at any number of points, from any number of threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gyrfalcon.arrays import AnyPoints, Array, as_kind, as_numpy
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel

from .kernel_matrix import KernelMatrix

WIDE_ROWS = 1 << 16  # rows converted to float64 together


class Predictor:
    """f(x) = Σⱼ coefficientsⱼ k(x, cⱼ) + intercept, one column per output, in float64.

    Parameters
    ----------
    kernel : Kernel
    centers : array, tensor or CSR of shape (m, d)
    coefficients : array of shape (m,) or (m, t)
    intercept : float or array of shape (t,)
    wide : bool
        Whether entries of K are made in float64 whatever the points are: for coefficients so large that the rounding of
        float32 entries would show.
    memory_budget : int, optional
    devices : list, optional
        As for `KernelMatrix`.
    """

    def __init__(
        self,
        kernel: Kernel,
        centers: AnyPoints,
        coefficients: Array,
        intercept: Any,
        *,
        wide: bool = False,
        memory_budget: int | None = None,
        devices: list[Any] | None = None,
    ):
        self.centers, self.coefficients, self.intercept = centers, coefficients, intercept
        C = Points(centers)
        self._K = KernelMatrix(kernel, C, C, cache=False, memory_budget=memory_budget, devices=devices)
        self._wide = wide and C.dtype == torch.float32
        columns = coefficients.reshape(len(coefficients), -1)
        peak = float(np.abs(columns).max(initial=0.0))
        self._scale = math.ldexp(1.0, math.frexp(peak)[1] - 1) if peak > 0 else 1.0  # so that float32 holds them all
        vectors = torch.from_numpy(columns / self._scale).to(C.device)
        self._vectors = vectors if self._wide else vectors.to(C.dtype)
        self._offset = np.atleast_1d(intercept)

    def __call__(self, points: Any) -> Array:
        """f at points that were checked, of shape (n, t)."""
        if isinstance(points, Source):
            return np.concatenate([self(chunk) for _, chunk in points.chunks()])
        values = self._product(self._K.with_points(Points(as_kind(points, self.centers))))
        return np.asarray(values * self._scale + self._offset)

    def _product(self, K: KernelMatrix) -> Array:
        if not self._wide:
            return as_numpy(K.multiply(self._vectors), np.float64)
        blocks = [slice(start, start + WIDE_ROWS) for start in range(0, K.shape[0], WIDE_ROWS)]
        return np.concatenate([as_numpy(K.rows(rows).widened().multiply(self._vectors)) for rows in blocks])

    def at(self, points: AnyPoints) -> KernelMatrix:
        """k(points, C)."""
        return self._K.with_points(Points(as_kind(points, self.centers)))

    def of(self, coefficients: Array, intercept: Any) -> bool:
        """Whether this is the function of these very coefficients."""
        return self.coefficients is coefficients and self.intercept is intercept
