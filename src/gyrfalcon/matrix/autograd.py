"""Derivatives of Σᵢⱼ aᵢⱼ k(xᵢ, cⱼ) by PyTorch: K is made again, block by block, so memory does not grow with n·m."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import device_of, to_tensor
from gyrfalcon.kernels import Kernel

TAPE_BLOCKS = 16  # blocks that autograd may keep while it differentiates one block of K

Block = Callable[[Kernel, Any, Any], Tensor]
"""k(X, C), dense, with gradients flowing into whatever asks for them."""


@dataclass(frozen=True)
class Weights:
    """The matrix a: left rightᵀ, or dense as `left` alone."""

    left: Tensor
    right: Tensor | None = None

    def block(self, rows: slice) -> Tensor:
        return self.left[rows] if self.right is None else self.left[rows] @ self.right.T

    def rows(self, rows: slice) -> Weights:
        return Weights(self.left[rows], self.right)

    def finite(self) -> bool:
        return all(part is None or bool(torch.isfinite(part).all()) for part in (self.left, self.right))


def parameters(kernel: Kernel, device: torch.device) -> dict[str, Tensor]:
    """The kernel's parameters as tensors; those that were given as tensors are kept, for their gradients."""
    return {
        name: value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device=device)
        for name, value in kernel.parameters().items()
    }


def dense_block(kernel: Kernel, X: Tensor, C: Tensor) -> Tensor:
    """k(X, C) of dense points."""
    return kernel.block(X, C)


def sums(
    kernel: Kernel, X: Any, C: Any, block: Block, weights: Weights, wanted: list[bool], step: int
) -> list[Tensor | None]:
    """Derivatives of Σ a ∘ k(X, C) in X, C and each parameter, where wanted, `step` rows of K at a time."""
    X, C = (points if sparse.issparse(points) else to_tensor(points) for points in (X, C))
    named = parameters(kernel, torch.device("cpu") if sparse.issparse(X) else device_of(X))
    leaves = (X, C, *named.values())
    found = [torch.zeros_like(leaf) if want else None for leaf, want in zip(leaves, wanted, strict=True)]
    with torch.enable_grad():
        C, *values = (_leaf(p, want) for p, want in zip(leaves[1:], wanted[1:], strict=True))
        differentiable = kernel.with_parameters(dict(zip(named, values, strict=True)))
        for start in range(0, X.shape[0], step):
            some = slice(start, start + step)
            here = _leaf(X[some], wanted[0])
            asked = [leaf for leaf, want in zip((here, C, *values), wanted, strict=True) if want]
            parts = iter(
                torch.autograd.grad(block(differentiable, here, C), asked, weights.block(some), allow_unused=True)
            )
            for place, total in enumerate(found):
                if total is not None and (part := next(parts)) is not None:
                    (total[some] if place == 0 else total).add_(part)
    return found


def _leaf(value: Any, wanted: bool) -> Any:
    return value.detach().requires_grad_() if wanted else value
