"""How a function f = Σⱼ βⱼ k(·, cⱼ) changes with its inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyrfalcon.arrays import Dense, to_tensor
from gyrfalcon.kernels import Kernel, Mapped, RadialKernel
from gyrfalcon.kernels.base import as_tensor
from gyrfalcon.kernels.distances import squared_distances

from .autograd import Weights, dense_block, sums


def slopes(kernel: Kernel, X: Dense, C: Dense, beta: Tensor) -> Tensor:
    """∇fₖ at the rows of X, of shape (rows, outputs, features)."""
    points, centers = to_tensor(X).detach(), to_tensor(C).detach()
    beta = beta.to(points)
    inner, matrix = (kernel.kernel, kernel.matrix) if isinstance(kernel, Mapped) else (kernel, None)
    if isinstance(inner, RadialKernel):
        return _radial(inner, matrix, points, centers, beta)
    wanted = [True, False, *(False for _ in kernel.parameters())]
    ones = torch.ones(len(points), 1, dtype=points.dtype, device=points.device)
    columns = [
        sums(kernel, points, centers, dense_block, Weights(ones, b[:, None]), wanted, max(1, len(points)))[0]
        for b in beta.T
    ]
    return torch.stack([column for column in columns if column is not None], 1)


def _radial(kernel: RadialKernel, matrix: Any, X: Tensor, C: Tensor, beta: Tensor) -> Tensor:
    """With z = x A/ℓ and k = φ(‖z - z'‖²): 2 Σⱼ βⱼ φ'ᵢⱼ (zᵢ - zⱼ), in one product, taken back through A."""
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
