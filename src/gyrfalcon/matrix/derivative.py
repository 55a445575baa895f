"""Derivatives of products with K, with memory that does not grow with n·m: K is made again, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import to_tensor
from gyrfalcon.kernels import Kernel

from .sparse_engine import SparseEngine

if TYPE_CHECKING:
    from .kernel_matrix import KernelMatrix

TAPE = 16  # blocks that autograd may keep while it differentiates one block of K


def block(kernel: Kernel, X: Any, C: Any) -> Tensor:
    """k(X, C), dense, with gradients flowing into whatever asks for them."""
    if sparse.issparse(X):
        if isinstance(C, Tensor) and C.requires_grad:
            raise ValueError("C: gradients in the centres need dense points X")
        return SparseEngine(kernel, X, C, budget=1).block(0, X.shape[0])
    return kernel.block(to_tensor(X), to_tensor(C))


def contract(
    kernel: Kernel,
    parameters: dict[str, Tensor],
    points: tuple[Any, Any],
    left: Tensor,
    right: Tensor,
    wanted: list[bool],
    blocks: Iterable[slice],
) -> list[Tensor | None]:
    """Derivatives of Σ (left rightᵀ) ∘ K in X, C and each parameter, where wanted."""
    X, C = points
    found = [
        torch.zeros_like(leaf) if want else None
        for leaf, want in zip((X, C, *parameters.values()), wanted, strict=True)
    ]
    with torch.enable_grad():
        C, *values = (_leaf(p, want) for p, want in zip((C, *parameters.values()), wanted[1:], strict=True))
        kernel = kernel.with_parameters(dict(zip(parameters, values, strict=True)))
        for rows in blocks:
            here = _leaf(X[rows], wanted[0])
            leaves = [leaf for leaf, want in zip((here, C, *values), wanted, strict=True) if want]
            weights = left[rows] @ right.T
            parts = iter(torch.autograd.grad(block(kernel, here, C), leaves, weights, allow_unused=True))
            for place, total in enumerate(found):
                if total is not None and (part := next(parts)) is not None:
                    (total[rows] if place == 0 else total).add_(part)
    return found


def _leaf(value: Any, wanted: bool) -> Any:
    return value.detach().requires_grad_() if wanted else value


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
        left, right = (V, gradient) if ctx.transposed else (gradient, V)
        in_vectors = ctx.matrix._multiply(gradient, not ctx.transposed) if ctx.needs_input_grad[2] else None
        in_leaves = ctx.matrix._contract(left, right, wanted) if any(wanted) else [None] * len(wanted)
        return None, None, in_vectors, *in_leaves
