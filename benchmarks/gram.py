"""Kᵀ K V in one pass beside the two products it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

import gyrfalcon as gf

from .contenders import Problem
from .product import CENTERS, VERDICT, Settings
from .timing import race, timed

TARGET = 0.65


@dataclass(frozen=True)
class GramRow:
    """Nanoseconds per entry of K."""

    dtype: str
    d: int
    t: int
    n: int
    mv_ns: float
    rmv_ns: float
    gram_mv_ns: float
    ratio: float
    met: bool | None
    disturbed: list[str]


def measure(settings: Settings) -> Iterator[GramRow]:
    for dtype in settings.dtypes:
        for t in settings.outputs:
            for d in settings.features:
                n = min(settings.rows_for(d), settings.gram_rows // (4 if d >= 500 else 1))
                yield _measure_one(Problem.make(n, CENTERS, d, t, dtype), settings)


def _measure_one(problem: Problem, settings: Settings) -> GramRow:
    (n, d), t = problem.X.shape, problem.V.shape[1]
    K = gf.KernelMatrix(gf.kernels.Gaussian(problem.length_scale), problem.X, problem.C, cache=False)
    W = torch.randn(n, t, dtype=problem.V.dtype)
    calls = {"mv": lambda: K @ problem.V, "rmv": lambda: K.T @ W, "gram_mv": lambda: K.gram_mv(problem.V)}
    found = race(
        [timed(name, call, problem.entries, rest=0) for name, call in calls.items()],
        settings.rounds,
        settings.patience / 4,
    )
    ratio = found["gram_mv"] / (found["mv"] + found["rmv"])
    return GramRow(
        dtype=str(problem.V.dtype).removeprefix("torch."),
        d=d,
        t=t,
        n=n,
        mv_ns=found["mv"],
        rmv_ns=found["rmv"],
        gram_mv_ns=found["gram_mv"],
        ratio=ratio,
        met=None if found.disturbed else ratio <= TARGET,
        disturbed=found.disturbed,
    )


def legend(settings: Settings) -> str:
    return (
        f"gram_mv (KᵀK V in one pass) beside mv (K @ V) and rmv (K.T @ W), gyrfalcon alone, m = {CENTERS}, n = "
        f"{settings.gram_rows:,} (a quarter of that for d = 784), ns per entry of K; asked: ratio at most {TARGET}."
    )


HEADER = f"{'':7} {'d':>4} {'t':>3} | {'mv':>7} {'rmv':>7} {'gram_mv':>8} | gram_mv / (mv + rmv)"


def line(row: GramRow) -> str:
    return (
        f"{row.dtype} {row.d:>4} {row.t:>3} | {row.mv_ns:7.3f} {row.rmv_ns:7.3f} {row.gram_mv_ns:8.3f} | "
        f"{row.ratio:5.2f} {VERDICT[row.met]}{' *' if row.disturbed else ''}"
    )
