"""A linear map of the inputs, learned from the gradients of the fitted function (recursive feature machines)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Points, to_tensor
from gyrfalcon.kernels import Kernel, Mapped, RadialKernel
from gyrfalcon.kernels.base import as_tensor
from gyrfalcon.kernels.distances import squared_distances
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares, direct

from .parameters import as_array

Array = np.ndarray[Any, Any]

BLOCK = 32 << 20  # bytes of a block of K
FLOOR = 1e-10  # of the largest eigenvalue: directions below are dropped
POWER = 0.25  # of the outer product that the map is: a half would soon leave but a few directions
ROWS = 5000  # at which gradients are taken


def gradient_outer_product(
    kernel: Kernel, X: Points, C: Points, coefficients: Array, weights: Array | None = None
) -> Array:
    """Σᵢ wᵢ Σₖ ∇fₖ(xᵢ) ∇fₖ(xᵢ)ᵀ / Σᵢ wᵢ, of shape (d, d), for fₖ = Σⱼ coefficientsⱼₖ k(·, cⱼ).

    Its eigenvectors are the directions in which f changes, its diagonal how much each feature matters.

    Parameters
    ----------
    kernel : Kernel
    X, C : arrays or tensors of shape (n, d) and (m, d)
    coefficients : array of shape (m, t)
    weights : array of shape (n,), optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> gf.tuning.gradient_outer_product(gf.kernels.Linear(), X, X, np.array([[0.0], [2.0]]))
    array([[4., 0.],
           [0., 0.]])
    """
    beta = torch.from_numpy(np.asarray(coefficients, dtype=np.float64).reshape(len(coefficients), -1))
    n, d = X.shape
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    total = np.zeros((d, d))
    step = max(1, BLOCK // (8 * max(C.shape[0], d * beta.shape[1])))
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        slopes = _gradients(kernel, X[rows], C, beta).double().cpu().numpy()  # rows × outputs × features
        slopes = (slopes * np.sqrt(w[rows])[:, None, None]).reshape(-1, d)
        total += slopes.T @ slopes
    return np.asarray(total / w.sum())


def _gradients(kernel: Kernel, X: Points, C: Points, beta: Tensor) -> Tensor:
    inner, matrix = (kernel.kernel, kernel.matrix) if isinstance(kernel, Mapped) else (kernel, None)
    if isinstance(inner, RadialKernel):
        return _radial_gradients(inner, matrix, to_tensor(X), to_tensor(C), beta)
    K = KernelMatrix(kernel, X, C)
    ones = torch.ones(X.shape[0], 1, dtype=K.dtype, device=K.device)
    columns = [K.gradients(ones, b[:, None].to(ones), wanted=("X",)).X for b in beta.T]
    return torch.stack([column for column in columns if column is not None], 1)


def _radial_gradients(kernel: RadialKernel, matrix: Any, X: Tensor, C: Tensor, beta: Tensor) -> Tensor:
    """With z = x A/ℓ and k = φ(‖z - z'‖²): 2 Σⱼ βⱼ φ'ᵢⱼ (zᵢ - zⱼ), in one product, taken back through A."""
    beta = beta.to(X)
    scale = 1 / as_tensor(kernel.length_scale, X)
    to_z = torch.diag(scale.expand(X.shape[1])) if matrix is None else (as_tensor(matrix, X).T * scale)
    shift = C.mean(0)
    Z, centers = (X - shift) @ to_z, (C - shift) @ to_z
    with torch.enable_grad():
        squared = squared_distances(Z, centers).detach().requires_grad_()
        (slope,) = torch.autograd.grad(kernel.profile(squared).sum(), squared)
    slope = torch.where(squared.detach() > 0, slope, 0)  # the difference is zero there, whatever the slope is
    outputs, width = beta.shape[1], centers.shape[1]
    moved = (beta[:, :, None] * centers[:, None, :]).reshape(len(C), -1)
    products = slope @ torch.cat([moved, beta], 1)
    away = products[:, : outputs * width].reshape(-1, outputs, width)
    gradients: Tensor = 2 * (products[:, outputs * width :, None] * Z[:, None, :] - away)
    return gradients @ to_z.T


def improve(problem: LeastSquares, scales: Array) -> Mapped:
    """The kernel after a map learned from the solution of a problem on a kernel of the distance, mapped or not.

    With G the average outer product of gradients in the features divided by `scales`, the map is G^POWER of those, of
    such a size that points are as far apart as before: the sum of its squares stays what it was.
    """
    kernel, X, C = problem.K.kernel, problem.K.X, problem.K.C
    inner = kernel.kernel if isinstance(kernel, Mapped) else kernel
    assert isinstance(inner, RadialKernel)
    coefficients = direct(problem).coefficients.numpy()
    rows = slice(0, ROWS)
    w = None if problem.weights is None else problem.weights[rows, 0].cpu().numpy()
    G = gradient_outer_product(kernel, X[rows], C, coefficients, w) * np.outer(scales, scales)
    values, vectors = np.linalg.eigh(G)
    top = float(values[-1])
    if not np.isfinite(top) or top <= 0:
        raise FloatingPointError("the fitted function does not change with its inputs")
    kept = values > FLOOR * top
    gains = values[kept] ** POWER
    before = as_array(kernel.matrix) if isinstance(kernel, Mapped) else np.eye(X.shape[1])
    before = before / np.broadcast_to(as_array(inner.length_scale), len(before))[:, None]
    gains *= np.linalg.norm(before * scales) / np.linalg.norm(gains)
    return Mapped(inner.with_parameters({"length_scale": 1.0}), (gains[:, None] * vectors[:, kept].T / scales).tolist())
