"""What every engine offers, built on one thing: dense blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel

from .autograd import Weights

SHORT_SUM = 256  # terms that are added in the type of X before float64 takes over
BLOCK_BYTES = 4 << 20  # larger blocks leave the last-level cache and gain nothing


Work = Callable[..., tuple[Array, ...]]
"""What `Engine.reduce` calls with a block of K in float64 and the same rows of further columns."""


class Description(NamedTuple):
    """How an engine works: its threads, the rows of a block, and the instruction set of compiled code."""

    threads: int
    block_rows: int
    instruction_set: str | None = None


class Engine(ABC):
    """Products with K, of shape (n, m). To write an engine, define `block`; override a product to make it faster.

    Sums over n are taken inside a block in the type asked for, and over blocks in float64, so that float32 results
    do not lose digits as n grows.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.kernels import Linear
    >>> from gyrfalcon.matrix import Engine
    >>> class Ones(Engine):
    ...     name = "ones"
    ...
    ...     def block(self, start, stop):
    ...         return torch.ones(stop - start, self.shape[1])
    >>> engine = Ones(Linear(), (4, 3), torch.float32, torch.device("cpu"), budget=1 << 20)
    >>> engine.multiply(torch.ones(3, 1)).tolist()
    [[3.0], [3.0], [3.0], [3.0]]
    """

    name: ClassVar[str]
    temporaries: ClassVar[int] = 4  # blocks alive at once while one is being made

    def __init__(self, kernel: Kernel, shape: tuple[int, int], dtype: torch.dtype, device: torch.device, budget: int):
        self.kernel = kernel
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.budget = budget

    @abstractmethod
    def block(self, start: int, stop: int) -> Tensor:
        """Rows start to stop of K."""

    def describe(self) -> Description:
        """Threads, rows of a block and instruction set."""
        return Description(torch.get_num_threads(), self.block_rows())

    def at(self, X: Any) -> Engine | None:
        """The same engine for other points of the same kind, type and device, or None if it has to be made anew."""
        return None

    def of(self, kernel: Kernel) -> Engine | None:
        """The engine of another kernel for the same points, or None if it has to be chosen anew."""
        return None

    def wide(self, start: int, stop: int) -> Tensor:
        """Rows start to stop of K with entries made in float64; where the type of X is another, engines that can make
        such entries override this."""
        return self.block(start, stop).double()

    def block_rows(self, target_bytes: int = BLOCK_BYTES) -> int:
        """How many rows a block has, so that it stays near the target and its temporaries inside the budget."""
        n, m = self.shape
        row_bytes = max(1, m) * self.dtype.itemsize
        return max(1, min(n, min(target_bytes, self.budget // self.temporaries) // row_bytes))

    def blocks(self, target_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
        n, step = self.shape[0], self.block_rows(target_bytes)
        for start in range(0, n, step):
            yield slice(start, min(n, start + step))

    def fill(self, out: Tensor) -> None:
        """Write all of K."""
        for rows in self.blocks():
            out[rows] = self.block(rows.start, rows.stop)

    def multiply(self, V: Tensor) -> Tensor:
        """K V."""
        out = self._zeros(self.shape[0], V.shape[1])
        for rows in self.blocks():
            out[rows] = _product(self.block(rows.start, rows.stop), V).to(self.dtype)
        return out

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        """Kᵀ W, summed and returned in the given type."""
        total = self._zeros(self.shape[1], W.shape[1], torch.float64)
        for rows in self.blocks():
            total += _product(self.block(rows.start, rows.stop).T.to(dtype), W[rows].to(dtype))
        return total.to(dtype)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Kᵀ diag(weights) K V, each entry of K made once, summed and returned in the given type."""
        total = self._zeros(self.shape[1], V.shape[1], torch.float64)
        for rows in self.blocks():
            block = self.block(rows.start, rows.stop)
            product = _product(block, V).to(self.dtype)
            total += _product(block.T.to(dtype), (product if weights is None else weights[rows] * product).to(dtype))
        return total.to(dtype)

    def gram(self, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Kᵀ diag(weights) K in one pass, summed and returned in the given type."""
        m = self.shape[1]
        total = self._zeros(m, m, torch.float64)
        signed = weights is not None and bool((weights < 0).any())
        for rows in self.blocks(max(BLOCK_BYTES, 2 * m * m * self.dtype.itemsize)):
            block = self.block(rows.start, rows.stop).to(dtype)
            if signed:
                total += block.T @ (weights[rows] * block)  # type: ignore[index]
            else:
                total += _upper_gram(block if weights is None else weights[rows].to(dtype).sqrt() * block)
        upper = total.triu()
        return (upper + upper.triu(1).T).to(dtype)

    def reduce(self, work: Work, columns: Sequence[Tensor | None], rows: int) -> tuple[Array, ...]:
        """The sums over blocks of at most so many rows of what `work` makes of each block of K in float64, as an array,
        and of the same rows of the columns."""
        n = self.shape[0]
        parts = (slice(start, min(n, start + rows)) for start in range(0, n, rows))
        return add_up(
            work(
                as_numpy(self.wide(part.start, part.stop)), *(None if c is None else as_numpy(c[part]) for c in columns)
            )
            for part in parts
        )

    def prior_diagonal(self) -> Array:
        """k(xᵢ, xᵢ) for every row of X, in float64; of explicit features the squared norm of each row of K."""
        if self.kernel.explicit:
            norms = (self.block(rows.start, rows.stop).double().square().sum(1) for rows in self.blocks())
            return np.concatenate([np.zeros(0), *map(as_numpy, norms)])
        return self._own_diagonal()

    def _own_diagonal(self) -> Array:
        """k(xᵢ, xᵢ) of a kernel that is no feature map."""
        raise NotImplementedError(f"the {self.name} engine does not say k(x, x)")

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        """Derivatives of Σ a ∘ K[rows] in X[rows], C and each parameter of the kernel, in this order, where wanted."""
        raise NotImplementedError(f"the {self.name} engine has no derivatives")

    def _zeros(self, rows: int, columns: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(rows, columns, dtype=dtype or self.dtype, device=self.device)


def _product(A: Tensor, B: Tensor) -> Tensor:
    """A B in float64 from short sums in the type of A and B.

    It is made transposed: for few columns, libraries are up to four times faster if the narrow matrix is on the left.
    """
    narrow = B.T.contiguous()
    total = torch.zeros(B.shape[1], len(A), dtype=torch.float64, device=A.device)
    for start in range(0, len(B), SHORT_SUM):
        total += narrow[:, start : start + SHORT_SUM] @ A[:, start : start + SHORT_SUM].T
    return total.T


def _upper_gram(block: Tensor) -> Tensor:
    """The upper triangle of blockᵀ block; what lies below it is not meant to be read."""
    if block.device.type != "cpu" or block.numel() == 0:
        return block.T @ block
    syrk = blas.ssyrk if block.dtype == torch.float32 else blas.dsyrk
    # Fortran order on both sides: the transposed view of a row-major block costs no copy, and half the work is saved.
    return torch.from_numpy(syrk(1.0, block.contiguous().numpy().T, lower=1).T)


def add_up(parts: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The sums of the first entries, of the second, and so on, one after the other."""
    totals = next(parts, ())
    for part in parts:
        for total, value in zip(totals, part, strict=True):
            total += value
    return totals
