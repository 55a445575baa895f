"""Problems with more features than rows, posed in as few coordinates as the kernel allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.linalg import eigh

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel, ProductLaplacian, RadialKernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares

from .parameters import as_array


def narrowed(problem: LeastSquares) -> LeastSquares:
    """The same problem with one length scale, where there are more features than rows and the kernel allows for it.

    Features are divided by their length scales, of which the geometric mean is left to the kernel. A radial kernel sees
    distances alone, and n points span n dimensions: with XXᵀ = UΛUᵀ, the rows of UΛ^½ have the distances of the rows
    of X. What is left to tune is a common factor. Every row must be a center.
    """
    K, kernel = problem.K, problem.K.kernel
    plain = K.dtype == torch.float64 and K.device.type == "cpu" and not K.sparse
    if not (isinstance(kernel, RadialKernel | ProductLaplacian) and plain and K.n_features > K.shape[0]):
        return problem
    scales, X = as_array(kernel.length_scale), as_numpy(K.centers, np.float64)
    common = _common(scales)
    with np.errstate(over="ignore", invalid="ignore"):
        X = (X - X.mean(0)) / (scales / common)
    if not np.isfinite(np.vdot(X, X)):  # such points need the care that kernels take
        return problem
    if isinstance(kernel, RadialKernel):
        squares, U = eigh(X @ X.T, overwrite_a=True, check_finite=False)
        X = U * np.sqrt(squares.clip(min=0))
    scaled = kernel.with_parameters({"length_scale": common})
    return replace(problem, K=KernelMatrix(scaled, X, memory_budget=K.memory_budget, cache=False))


def widened_as(problem: LeastSquares, found: Kernel) -> Kernel:
    """What was found for `narrowed(problem)`, where that is another problem, as a kernel of all features."""
    scales = as_array(problem.K.kernel.parameters()["length_scale"])
    factor = float(as_array(found.parameters()["length_scale"])) / _common(scales)
    return found.with_parameters({"length_scale": (scales * factor).tolist()})


def _common(scales: Array) -> float:
    return float(np.exp(np.log(scales).mean()))
