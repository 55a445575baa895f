"""K(X, C) @ V for the Gaussian kernel, as each contender does it best."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gyrfalcon as gf

from .timing import race, timed

Product = Callable[[], Any]  # makes the product; what it prepares beforehand is not timed
TORCH_ROWS = (128, 256, 512, 1024, 2048)
NUMPY_ROWS = (64, 256, 1024)
HAS_KEOPS = importlib.util.find_spec("pykeops") is not None
HAS_CORE = importlib.util.find_spec("gyrfalcon._native") is not None


@dataclass(frozen=True)
class Problem:
    """Normal points, and a length scale √d at which kernel values are neither zeros nor ones."""

    X: Tensor
    C: Tensor
    V: Tensor

    @staticmethod
    def make(n: int, m: int, d: int, t: int, dtype: torch.dtype) -> Problem:
        generator = torch.Generator().manual_seed(0)
        draw = partial(torch.randn, generator=generator, dtype=dtype)
        return Problem(draw(n, d), draw(m, d), draw(m, t))

    def head(self, rows: int) -> Problem:
        return Problem(self.X[:rows], self.C, self.V)

    @property
    def entries(self) -> int:
        return len(self.X) * len(self.C)

    @property
    def length_scale(self) -> float:
        return math.sqrt(self.X.shape[1])

    def error(self, result: Any, rows: int = 32) -> float:
        """The largest error of the first rows, relative to the largest entry, against float64 differences."""
        X, C, V = self.X[:rows].double(), self.C.double(), self.V.double()
        squared = torch.stack([(x - C).square().sum(1) for x in X]) / self.length_scale**2
        exact = torch.exp(-squared / 2) @ V
        found = torch.as_tensor(result)[:rows].double().reshape(exact.shape)
        return float((found - exact).abs().max() / exact.abs().max())


def gyrfalcon_product(problem: Problem) -> Product:
    kernel = gf.kernels.Gaussian(problem.length_scale)
    K = gf.KernelMatrix(kernel, problem.X, problem.C, engine="native" if HAS_CORE else "torch", cache=False)
    return lambda: K @ problem.V


@dataclass(frozen=True)
class Choice:
    """One way to make the product, to be compared with others of the same library."""

    label: str
    rows: int
    prepare: Callable[[Problem], Product]


def torch_choices() -> list[Choice]:
    """PyTorch: -‖x - c‖²/2σ² is one GEMM of points with extra columns; exp in place; a product into its place."""
    return [
        Choice(f"{name}, blocks of {rows} rows", rows, partial(prepare, rows))
        for rows in TORCH_ROWS
        for name, prepare in (
            ("mm with both norms folded in", partial(_torch_folded, False)),
            ("mm with both norms folded in, centers laid out by feature", partial(_torch_folded, True)),
            ("addmm with the norms of C as the added row", _torch_addmm),
        )
    ]


def numpy_choices() -> list[Choice]:
    """NumPy: the same formulation."""
    return [
        Choice(f"matmul with both norms folded in, blocks of {rows} rows", rows, partial(_numpy, rows))
        for rows in NUMPY_ROWS
    ]


def tune(choices: Sequence[Choice], problem: Problem, keep: int, patience: float) -> list[Choice]:
    """The fastest few on some rows: all twice, then the better half three times more."""
    found = list(choices)
    for rounds, survivors in ((2, max(keep, len(found) // 2)), (3, keep)):
        runs = [timed(c.label, c.prepare(problem), problem.entries, rest=0, least=0) for c in found]
        result = race(runs, rounds, patience)
        found = sorted(found, key=lambda choice: result[choice.label])[:survivors]
    return found


def _folded(problem: Problem) -> tuple[Tensor, Tensor]:
    X, C = problem.X / problem.length_scale, problem.C / problem.length_scale
    left = torch.cat([X, -0.5 * X.square().sum(1, keepdim=True), torch.ones_like(X[:, :1])], dim=1)
    right = torch.cat([C, torch.ones_like(C[:, :1]), -0.5 * C.square().sum(1, keepdim=True)], dim=1)
    return left, right


def _torch_blocks(rows: int, problem: Problem, exponent: Callable[[slice, Tensor], object]) -> Product:
    n, V = len(problem.X), problem.V
    space = torch.empty(rows, len(V), dtype=V.dtype)
    out = torch.empty(n, V.shape[1], dtype=V.dtype)
    v, column = V[:, 0].contiguous(), out[:, 0]

    def run() -> Tensor:
        for start in range(0, n, rows):
            at = slice(start, min(n, start + rows))
            block = space[: at.stop - start]
            exponent(at, block)
            block.exp_()
            if V.shape[1] == 1:
                torch.mv(block, v, out=column[at])
            else:
                torch.mm(block, V, out=out[at])
        return out

    return run


def _torch_folded(by_feature: bool, rows: int, problem: Problem) -> Product:
    left, right = _folded(problem)
    transposed = right.T.contiguous() if by_feature else right.T
    return _torch_blocks(rows, problem, lambda at, block: torch.mm(left[at], transposed, out=block))


def _torch_addmm(rows: int, problem: Problem) -> Product:
    left, right = _folded(problem)
    norms = right[:, -1].contiguous()
    left, transposed = left[:, :-1].contiguous(), right[:, :-1].contiguous().T
    return _torch_blocks(rows, problem, lambda at, block: torch.addmm(norms, left[at], transposed, out=block))


def _numpy(rows: int, problem: Problem) -> Product:
    left, right = (side.numpy() for side in _folded(problem))
    n, V = len(left), problem.V.numpy()
    space = np.empty((rows, len(V)), dtype=V.dtype)
    out = np.empty((n, V.shape[1]), dtype=V.dtype)

    def run() -> Any:
        for start in range(0, n, rows):
            stop = min(n, start + rows)
            block = space[: stop - start]
            np.matmul(left[start:stop], right.T, out=block)
            np.exp(block, out=block)
            np.matmul(block, V, out=out[start:stop])
        return out

    return run


def keops_product(problem: Problem) -> Product:
    LazyTensor = importlib.import_module("pykeops.torch").LazyTensor
    x = LazyTensor((problem.X / problem.length_scale)[:, None, :].contiguous())
    c = LazyTensor((problem.C / problem.length_scale)[None, :, :].contiguous())
    K = (-((x - c) ** 2).sum(-1) / 2).exp()
    return lambda: K @ problem.V
