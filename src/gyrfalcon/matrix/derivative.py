"""Products of a KernelMatrix on PyTorch's record of operations, and derivatives for those who ask for them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import to_tensor

from .autograd import Weights

if TYPE_CHECKING:
    from .kernel_matrix import KernelMatrix


class Gradients(NamedTuple):
    """Derivatives of Σᵢⱼ aᵢⱼ k(xᵢ, cⱼ) in both sets of points and in the kernel's parameters, where wanted.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> K = gf.KernelMatrix(gf.kernels.Linear(), torch.ones(4, 2), torch.ones(3, 2))
    >>> K.gradients(torch.ones(4, 1), torch.ones(3, 1)).parameters["length_scale"].item()  # 24/σ² at σ = 1
    -48.0
    """

    X: Tensor | None
    C: Tensor | None
    parameters: dict[str, Tensor]


def dense_weights(value: Any, rows: slice, matrix: KernelMatrix) -> Weights:
    """An array or a tensor with one entry for each entry of K[rows], of the type of X and on its device."""
    dense = value if isinstance(value, Tensor) else to_tensor(np.asarray(value))
    if dense.shape != (rows.stop - rows.start, matrix.shape[1]):
        shape = (rows.stop - rows.start, matrix.shape[1])
        raise ValueError(f"weights must have shape {shape}, one entry per row and center, got {tuple(dense.shape)}")
    if dense.layout is not torch.strided or dense.dtype != matrix.dtype:
        raise TypeError(f"weights must be dense and hold {matrix.dtype} as the points do: convert one of them")
    if dense.device != matrix.device:
        raise ValueError(f"weights is on {dense.device} but the points are on {matrix.device}: move one of them")
    return Weights(dense.detach().resolve_neg())


def gradients(matrix: KernelMatrix, rows: slice, weights: Weights, wanted: Collection[str]) -> Gradients:
    """The derivatives of rows of K that the names in `wanted` ask for; a has as many rows as the slice."""
    if unknown := set(wanted) - {*Gradients._fields}:
        raise ValueError(f"wanted must name some of {Gradients._fields}, got {sorted(unknown)[0]!r}")
    if matrix.sparse and not {"X", "C"}.isdisjoint(wanted):
        raise ValueError("wanted: gradients in X and C need dense points")
    if matrix.streamed and "X" in wanted:
        raise ValueError("wanted: gradients in X need points in memory: ask for those in C and parameters only")
    names = list(matrix.kernel.parameters())
    flags = ["X" in wanted, "C" in wanted, *(["parameters" in wanted] * len(names))]
    in_x, in_c, *in_parameters = results = matrix._contract(rows, weights, flags)
    # Looked at only where the result shows it: a look at dense weights costs as much as the derivatives themselves.
    if not all(result is None or math.isfinite(result.sum()) for result in results) and not weights.finite():
        raise ValueError("weights contains NaN or infinity")
    found = zip(names, in_parameters, strict=True)
    return Gradients(in_x, in_c, {name: value for name, value in found if value is not None})


class Product(torch.autograd.Function):
    """K V, or Kᵀ V. Saves V and nothing of K."""

    @staticmethod
    def forward(ctx: Any, matrix: KernelMatrix, transposed: bool, V: Tensor, *leaves: Tensor | None) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        ctx.save_for_backward(V)
        return matrix._multiply(V.detach(), transposed)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (V,) = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[3:])
        weights = Weights(V, gradient) if ctx.transposed else Weights(gradient, V)
        in_vectors = ctx.matrix._multiply(gradient, not ctx.transposed) if ctx.needs_input_grad[2] else None
        return None, None, in_vectors, *ctx.matrix._contract(slice(None), weights, wanted)
