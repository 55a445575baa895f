"""Derivatives of Σᵢⱼ aᵢⱼ k(xᵢ, cⱼ), with memory that does not grow with n·m: K is made again, block by block."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import to_tensor
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel

from .choice import choose
from .dask_engine import DaskEngine
from .engine import BLOCK_BYTES
from .native_engine import NativeEngine
from .sparse_engine import SparseEngine
from .split_engine import SplitEngine
from .streamed_engine import StreamedEngine

if TYPE_CHECKING:
    from .kernel_matrix import KernelMatrix

TAPE = 16  # blocks that autograd may keep while it differentiates one block of K


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


@dataclass(frozen=True)
class Weights:
    """The matrix a: left rightᵀ, or dense as `left` alone."""

    left: Tensor
    right: Tensor | None = None

    def block(self, rows: slice) -> Tensor:
        return self.left[rows] if self.right is None else self.left[rows] @ self.right.T

    def finite(self) -> bool:
        return all(part is None or bool(torch.isfinite(part).all()) for part in (self.left, self.right))


def dense_weights(value: Any, rows: slice, matrix: KernelMatrix) -> Weights:
    """An array or a tensor with one entry for each entry of K[rows], of the type of X and on its device."""
    dense = value if isinstance(value, Tensor) else to_tensor(np.asarray(value))
    if dense.shape != (rows.stop - rows.start, matrix.shape[1]):
        shape = (rows.stop - rows.start, matrix.shape[1])
        raise ValueError(f"weights must have shape {shape}, one entry per row and centre, got {tuple(dense.shape)}")
    if dense.layout is not torch.strided or dense.dtype != matrix.dtype:
        raise TypeError(f"weights must be dense and hold {matrix.dtype} as the points do: convert one of them")
    if dense.device != matrix.device:
        raise ValueError(f"weights is on {dense.device} but the points are on {matrix.device}: move one of them")
    return Weights(dense.detach().resolve_neg())


def gradients(matrix: KernelMatrix, rows: slice, weights: Weights, wanted: Collection[str]) -> Gradients:
    """The derivatives of rows of K that the names in `wanted` ask for; a has as many rows as the slice."""
    if unknown := set(wanted) - {*Gradients._fields}:
        raise ValueError(f"wanted must name some of {Gradients._fields}, got {sorted(unknown)[0]!r}")
    if sparse.issparse(matrix.X) and not {"X", "C"}.isdisjoint(wanted):
        raise ValueError("wanted: gradients in X and C need dense points")
    if isinstance(matrix.X, Source) and "X" in wanted:
        raise ValueError("wanted: gradients in X need points in memory: ask for those in C and parameters only")
    names = list(matrix.kernel.parameters())
    flags = ["X" in wanted, "C" in wanted, *(["parameters" in wanted] * len(names))]
    in_x, in_c, *in_parameters = results = contract(matrix, rows, weights, flags)
    # Looked at only where the result shows it: a look at dense weights costs as much as the derivatives themselves.
    if not all(result is None or math.isfinite(result.sum()) for result in results) and not weights.finite():
        raise ValueError("weights contains NaN or infinity")
    found = zip(names, in_parameters, strict=True)
    return Gradients(in_x, in_c, {name: value for name, value in found if value is not None})


def parameters(matrix: KernelMatrix) -> dict[str, Tensor]:
    """The kernel's parameters as tensors; those that were given as tensors are kept, for their gradients."""
    return {
        name: value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device=matrix.device)
        for name, value in matrix.kernel.parameters().items()
    }


def block(kernel: Kernel, X: Any, C: Any) -> Tensor:
    """k(X, C), dense, with gradients flowing into whatever asks for them."""
    if sparse.issparse(X):
        if isinstance(C, Tensor) and C.requires_grad:
            raise ValueError("C: gradients in the centres need dense points X")
        return SparseEngine(kernel, X, C, budget=1).block(0, X.shape[0])
    return kernel.block(to_tensor(X), to_tensor(C))


def contract(matrix: KernelMatrix, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
    """Derivatives of Σ a ∘ K[rows] in X[rows], C and each parameter, where wanted."""
    if not any(wanted):
        return [None] * len(wanted)
    engine = matrix._current()
    if isinstance(engine, SplitEngine):  # derivatives are not shared: they are made where X is
        engine, _ = choose(matrix.kernel, matrix.X, matrix.C, matrix.device, matrix.memory_budget, None)
    if isinstance(engine, DaskEngine):  # nor by workers: rows come here, a chunk at a time
        engine, _ = choose(matrix.kernel, matrix.X, matrix.C, matrix.device, matrix.memory_budget, "streamed")
    if isinstance(engine, StreamedEngine):
        return _contract_chunks(matrix, engine, rows, weights, wanted)
    if isinstance(engine, NativeEngine) and engine.differentiates and not wanted[0]:
        return [None, *engine.gradients(rows, weights.left, weights.right, *wanted[1:])]
    X, C = (points if sparse.issparse(points) else to_tensor(points) for points in (matrix.X[rows], matrix.C))
    named = parameters(matrix)
    found = [
        torch.zeros_like(leaf) if want else None for leaf, want in zip((X, C, *named.values()), wanted, strict=True)
    ]
    step = engine.block_rows(min(BLOCK_BYTES, matrix.memory_budget // TAPE))
    with torch.enable_grad():
        C, *values = (_leaf(p, want) for p, want in zip((C, *named.values()), wanted[1:], strict=True))
        kernel = matrix.kernel.with_parameters(dict(zip(named, values, strict=True)))
        for start in range(0, X.shape[0], step):
            some = slice(start, start + step)
            here = _leaf(X[some], wanted[0])
            leaves = [leaf for leaf, want in zip((here, C, *values), wanted, strict=True) if want]
            parts = iter(torch.autograd.grad(block(kernel, here, C), leaves, weights.block(some), allow_unused=True))
            for place, total in enumerate(found):
                if total is not None and (part := next(parts)) is not None:
                    (total[some] if place == 0 else total).add_(part)
    return found


def _contract_chunks(
    matrix: KernelMatrix, engine: StreamedEngine, rows: slice, weights: Weights, wanted: list[bool]
) -> list[Tensor | None]:
    """The same in one pass over rows that are read in chunks."""
    leaves = (None, to_tensor(matrix.C), *parameters(matrix).values())  # X is not in memory and has no derivative
    sums = [
        None if leaf is None or not want else torch.zeros_like(leaf, dtype=torch.float64).detach()
        for leaf, want in zip(leaves, wanted, strict=True)
    ]
    start, stop, _ = rows.indices(matrix.shape[0])
    with contextlib.closing(engine.X.chunks(start, stop, engine.chunk_rows)) as chunks:
        for some, chunk in chunks:
            part = type(matrix)(matrix.kernel, matrix._here(chunk), matrix.C, memory_budget=matrix.memory_budget // 2)
            here = Weights(weights.left[some.start - start : some.stop - start], weights.right)
            for total, found in zip(sums, contract(part, slice(None), here, wanted), strict=True):
                if total is not None and found is not None:
                    total += found
    return [None if s is None or leaf is None else s.to(leaf.dtype) for s, leaf in zip(sums, leaves, strict=True)]


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
        weights = Weights(V, gradient) if ctx.transposed else Weights(gradient, V)
        in_vectors = ctx.matrix._multiply(gradient, not ctx.transposed) if ctx.needs_input_grad[2] else None
        return None, None, in_vectors, *contract(ctx.matrix, slice(None), weights, wanted)
