"""Squared distances that keep their digits: centered, by differences where few features make that cheap, and by
differences again wherever |x|² + |c|² - 2⟨x, c⟩ cancels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_numpy

WIDEST_DIRECT = 16
CANCELLATION = 1 / 32  # below this part of |x|² + |c|², digits are gone


def shift_of(C: Tensor) -> Tensor:
    """A point near the mean of C, rounded so that subtracting it from nearby points is exact.

    Each entry is a multiple of a power of two near the feature's spread: what is subtracted has few bits, so the
    difference keeps all of x's. Zero where the spread is that of the type, whose range differences would leave.
    """
    values = as_numpy(C)  # which starts no threads for a few thousand numbers
    if len(values) == 0:
        return C.new_zeros(C.shape[1])
    low, high = values.min(0).astype(np.float64), values.max(0).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        spread, mean = high - low, values.mean(0, dtype=np.float64)
        mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)  # the sum may leave the range
        grid = np.exp2(np.floor(np.log2(np.maximum(spread, np.finfo(np.float64).tiny))))
        shift = np.where(spread > 0, np.round(mean / grid) * grid, low)
        shift = np.where(spread < np.finfo(values.dtype).max / 2, shift, 0.0)
    return torch.from_numpy(shift).to(C.device, C.dtype)


class _SquaredDistances(torch.autograd.Function):
    """Values as described above; derivatives by the chain rule, which needs no n × m × d tensor."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, C: Tensor) -> Tensor:
        ctx.save_for_backward(X, C)
        return _direct(X, C) if X.shape[1] <= WIDEST_DIRECT else _expanded(X, C)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        X, C = ctx.saved_tensors
        if X.shape[1] <= WIDEST_DIRECT:
            return _direct_backward(X, C, gradient)
        return (
            2 * (X * gradient.sum(1, keepdim=True) - gradient @ C),
            2 * (C * gradient.sum(0)[:, None] - gradient.T @ X),
        )


def _direct(X: Tensor, C: Tensor) -> Tensor:
    total = X.new_zeros(len(X), len(C))
    for k in range(X.shape[1]):
        gap = X[:, k, None] - C[:, k]
        total.addcmul_(gap, gap)
    return total


def _direct_backward(X: Tensor, C: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    in_x, in_c = torch.empty_like(X), torch.empty_like(C)
    for k in range(X.shape[1]):
        weighted = gradient * (X[:, k, None] - C[:, k])
        in_x[:, k], in_c[:, k] = 2 * weighted.sum(1), -2 * weighted.sum(0)
    return in_x, in_c


def _expanded(X: Tensor, C: Tensor) -> Tensor:
    x_norm, c_norm = (Z.double().square().sum(1).to(Z.dtype) for Z in (X, C))
    both = x_norm[:, None] + c_norm
    total = torch.addmm(both, X, C.T, alpha=-2)
    lost = ~(total >= both.mul_(CANCELLATION))  # NaN, from overflow, counts as lost
    if lost.any():
        i, j = lost.nonzero(as_tuple=True)
        step = max(1, (1 << 20) // X.shape[1])
        for a in range(0, len(i), step):
            rows, columns = i[a : a + step], j[a : a + step]
            total[rows, columns] = (X[rows] - C[columns]).square().sum(1)
    return total


class _AbsoluteDistances(torch.autograd.Function):
    """Feature by feature, so that neither values nor derivatives need an n × m × d tensor."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, C: Tensor) -> Tensor:
        ctx.save_for_backward(X, C)
        total = X.new_zeros(len(X), len(C))
        for k in range(X.shape[1]):
            total += (X[:, k, None] - C[:, k]).abs_()
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        X, C = ctx.saved_tensors
        in_x, in_c = torch.empty_like(X), torch.empty_like(C)
        for k in range(X.shape[1]):
            signed = (X[:, k, None] - C[:, k]).sign_().mul_(gradient)
            in_x[:, k], in_c[:, k] = signed.sum(1), -signed.sum(0)
        return in_x, in_c


def absolute_distances(X: Tensor, C: Tensor) -> Tensor:
    """Σₖ |xₖ - cₖ| for every row x of X and c of C; differentiable in both, with slope zero where features agree."""
    distances: Tensor = _AbsoluteDistances.apply(X, C)  # type: ignore[no-untyped-call]
    return distances


def squared_distances(X: Tensor, C: Tensor) -> Tensor:
    """‖x - c‖² for every row x of X and c of C, both already shifted near the origin; differentiable in both."""
    distances: Tensor = _SquaredDistances.apply(X, C)  # type: ignore[no-untyped-call]
    return distances
