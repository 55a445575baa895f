"""Derivatives in centers and length scales beside the product K @ V that they belong to, and beside autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import gyrfalcon as gf

from . import THREADS
from .contenders import Problem
from .product import VERDICT
from .timing import race, timed

CENTERS = 1000
TARGET = 3.0
WANTED = ("C", "parameters")
KERNELS: dict[str, Callable[[float | list[float]], gf.kernels.Kernel]] = {
    "Gaussian": gf.kernels.Gaussian,
    "Laplacian": gf.kernels.Laplacian,
    "Matérn 3/2": gf.kernels.Matern,
}


@dataclass(frozen=True)
class Settings:
    """How much to run. Times are per entry of K, so autograd may have fewer rows."""

    rows: int = 100_000
    autograd_rows: int = 4_000
    features: tuple[int, ...] = (3, 10, 30, 90)
    outputs: tuple[int, ...] = (1, 10, 21)
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)
    rounds: int = 5
    patience: float = 12.0  # seconds for one line


FULL = Settings()
QUICK = Settings(rows=10_000, autograd_rows=1_000, features=(3, 30), outputs=(1,), patience=2.0)


def run(quick: bool) -> None:
    settings = QUICK if quick else FULL
    print(_legend(settings), _HEADER, sep="\n")
    for line in _measure(settings):
        print(line, flush=True)


def _measure(settings: Settings) -> Iterator[str]:
    for dtype in settings.dtypes:
        for name in KERNELS:
            for d in settings.features:
                for t in settings.outputs:
                    yield _line(settings, dtype, name, d, t)


def _line(settings: Settings, dtype: torch.dtype, name: str, d: int, t: int) -> str:
    problem = Problem.make(settings.rows, CENTERS, d, t, dtype)
    few = problem.head(settings.autograd_rows)
    one, each = KERNELS[name](problem.length_scale), KERNELS[name]([problem.length_scale] * d)
    left = torch.randn(settings.rows, t, dtype=dtype, generator=torch.Generator().manual_seed(1))
    K = gf.KernelMatrix(one, problem.X, problem.C, cache=False)
    found = race(
        [
            timed("product", lambda: K @ problem.V, problem.entries),
            timed("one scale", _gradients(K, left, problem.V), problem.entries),
            timed("a scale per feature", _gradients(_matrix(each, problem), left, problem.V), problem.entries),
            timed("autograd", _gradients(_matrix(each, few, "torch"), left[: len(few.X)], problem.V), few.entries),
        ],
        settings.rounds,
        settings.patience,
    )
    ratios = [found[who] / found["product"] for who in ("one scale", "a scale per feature")]
    met = None if found.disturbed else max(ratios) <= TARGET
    return (
        f"{str(dtype).removeprefix('torch.')} {name:10} {d:>3} {t:>3} | {found['product']:7.3f} "
        f"{found['one scale']:9.3f} {found['a scale per feature']:11.3f} {found['autograd']:8.2f} | {ratios[0]:9.2f} "
        f"{ratios[1]:11.2f} {VERDICT[met]:6} | {found['autograd'] / found['a scale per feature']:9.1f}"
        f"{' *' if found.disturbed else ''}"
    )


def _matrix(kernel: gf.kernels.Kernel, problem: Problem, engine: str | None = None) -> gf.KernelMatrix:
    return gf.KernelMatrix(kernel, problem.X, problem.C, engine=engine, cache=False)


def _gradients(K: gf.KernelMatrix, left: Tensor, right: Tensor) -> Callable[[], object]:
    return lambda: K.gradients(left, right, wanted=WANTED)


def _legend(settings: Settings) -> str:
    return (
        "Derivatives of Σ leftᵀ K right in C and in the length scale, one or one per feature, beside K @ V with as "
        f"many columns, m = {CENTERS}, n = {settings.rows:,}, {THREADS} threads.\n"
        "Nanoseconds per entry of K, the best of interleaved rounds; / product: how many products the derivatives "
        f"cost, asked: at most {TARGET:g}.\n"
        f"autograd: PyTorch's, block by block (engine='torch'), one scale per feature, on {settings.autograd_rows:,} "
        "rows; × autograd: how many times faster the compiled core is.\n"
        "*: other processes took CPU time even during the best turn of someone: the row may be off, and is not judged."
    )


_HEADER = (
    f"{'':7} {'':10} {'d':>3} {'t':>3} | {'product':>7} {'one scale':>9} {'per feature':>11} {'autograd':>8} | "
    f"{'/ product':>9} {'per feature':>11} {'':6} | × autograd"
)
