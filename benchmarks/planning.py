"""What `gyrfalcon.plan` predicts beside what fits then take: time and peak memory, over a grid of sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.datasets import trips
from gyrfalcon.solvers import Falkon, LeastSquares, solve

from . import THREADS, machine, report, stream
from .process import in_fresh_process, peak_beyond
from .timing import Others

Array = np.ndarray[Any, Any]

ROWS, FEATURES, CENTERS = (100_000, 300_000, 1_000_000), (9, 30), (500, 1000, 2000)
STREAMED_ROWS = (1_000_000, 4_000_000, 20_000_000)
ITERATIONS, PENALTY = 10, 1e-6
FEW = 5000  # rows of the fit before the one that counts
CLOSE = 0.25
DISTURBED = 0.1  # of the processor time, taken by others during a fit


@dataclass(frozen=True)
class Case:
    n: int
    d: int
    m: int
    dtype: str
    storage: str


@dataclass(frozen=True)
class Measured:
    seconds: float
    others: float  # the share of the processor time that the rest of the machine took
    peak_bytes: int


@dataclass(frozen=True)
class Row:
    """A case, and what became of it; bytes are beyond those of a process that has made a small fit."""

    case: Case
    predicted: float
    low: float
    high: float
    measured: Measured
    predicted_bytes: int

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured.seconds

    @property
    def close(self) -> bool:
        return abs(self.ratio - 1) <= CLOSE

    @property
    def inside(self) -> bool:
        return self.low <= self.measured.seconds <= self.high

    @property
    def disturbed(self) -> bool:
        return self.measured.others > DISTURBED


def run(quick: bool, most: int, cache: Path) -> None:
    described = machine.describe()
    print(machine.headline(described), _LEGEND, _HEADER, sep="\n", flush=True)
    rows = []
    for case in _cases(quick, most):
        if case.storage != "memory" and not stream.trips_file(cache, case.n).exists():
            cache.mkdir(parents=True, exist_ok=True)
            trips.write_trips(stream.trips_file(cache, case.n), case.n)
        rows.append(_compare(case, cache))
        print(_line(rows[-1]), flush=True)
        content = [asdict(row) | {"ratio": row.ratio, "close": row.close, "disturbed": row.disturbed} for row in rows]
        report.write_json(report.FOLDER / "planning.json", {"machine": described, "rows": content})
    print(_summary(rows))


def _cases(quick: bool, most: int) -> Iterator[Case]:
    rows, centers = (ROWS[:2], CENTERS[:2]) if quick else (ROWS, CENTERS)
    for d in FEATURES:
        for n in (n for n in rows if n <= most):
            for m in centers:
                yield Case(n, d, m, "float32", "memory")
    yield Case(rows[-1], FEATURES[0], 1000, "float64", "memory")
    for n in rows[-1:] if quick else sorted({n for n in STREAMED_ROWS if n <= most} | {most}):
        yield Case(n, len(trips.LENGTH_SCALES), 1000, "float32", "parquet")


def _compare(case: Case, cache: Path) -> Row:
    plan = in_fresh_process(_predict, case)
    measured = in_fresh_process(_fit, case, cache)
    return Row(case, plan.total, *plan.interval, measured, plan.peak_bytes)


def _predict(case: Case) -> gf.FitPlan:
    machine.set_threads()
    kernel = _kernel(case.d)
    return gf.plan(case.n, case.d, case.m, dtype=case.dtype, kernel=kernel, iterations=ITERATIONS, storage=case.storage)


def _kernel(d: int) -> gf.kernels.Kernel:
    return gf.kernels.Gaussian(float(np.sqrt(d)))


def _fit(case: Case, cache: Path) -> Measured:
    """A fit of normal points or of trips; reading is part of it, making points is not."""
    machine.set_threads()
    few = np.random.default_rng(1).standard_normal((FEW, case.d)).astype(case.dtype)
    if case.storage != "memory":
        few = data.open(stream.trips_file(cache, case.n)).X.rows(0, FEW)[:, : case.d].copy()
    _solve(_kernel(case.d), few, few[:, 0].copy(), 500)  # what is loaded and started once is no part of a fit
    (seconds, others), grown = peak_beyond(lambda: _timed(case, cache))
    return Measured(seconds, others, grown)


def _timed(case: Case, cache: Path) -> tuple[float, float]:
    kernel = _kernel(case.d)
    ready = None if case.storage != "memory" else _points(case)
    began, others = time.perf_counter(), Others()
    if ready is None:
        kernel = gf.kernels.Gaussian(list(trips.LENGTH_SCALES.values()))
        table = data.open(stream.trips_file(cache, case.n), target=trips.TARGET)
        assert table.y is not None
        ready = table.X, table.y
    _solve(kernel, *ready, case.m)
    seconds = time.perf_counter() - began
    return seconds, others.taken() / (THREADS * seconds)


def _points(case: Case) -> tuple[Array, Array]:
    X = np.random.default_rng(0).standard_normal((case.n, case.d), dtype=case.dtype)  # type: ignore[arg-type]
    return X, np.sin(X[:, 0])


def _solve(kernel: gf.kernels.Kernel, points: Any, y: Array, m: int) -> None:
    C = gf.centers.select("uniform", kernel, points, m, random=np.random.default_rng(0))
    problem = LeastSquares(gf.KernelMatrix(kernel, points, C), torch.from_numpy(y[:, None]), PENALTY)
    solve(problem, Falkon(tolerance=0.0, max_iterations=ITERATIONS))


_LEGEND = (
    f"\nPlan: predicted and measured, {ITERATIONS} iterations of falkon, penalty {PENALTY:g}, uniform centers, one "
    f"output, {THREADS} threads, a process for each prediction and each fit.\n"
    f"In memory: normal points. Parquet: made-up taxi trips, opening and every pass included, in the system's cache.\n"
    f"ratio: predicted over measured, close if within {CLOSE:.0%}; inside: whether measured is in the interval "
    "predicted; peak: bytes beyond those of a process that has made a small fit, predicted / measured."
)

_HEADER = (
    f"{'':8} {'rows':>11} {'d':>3} {'m':>5} {'type':>8} {'predicted':>10} {'measured':>9} {'ratio':>6} {'close':>6} "
    f"{'inside':>7} {'rows/s':>8} {'others':>7} {'peak':>14}"
)


def _line(row: Row) -> str:
    case, measured = row.case, row.measured
    return (
        f"{case.storage:8} {case.n:>11,} {case.d:>3} {case.m:>5} {case.dtype:>8} {row.predicted:>8.2f} s "
        f"{measured.seconds:>7.2f} s {row.ratio:6.2f} {'yes' if row.close else 'no':>6} "
        f"{'yes' if row.inside else 'no':>7} {case.n / measured.seconds:>8.2g} {measured.others:7.0%} "
        f"{row.predicted_bytes / 1e6:>5.0f} / {measured.peak_bytes / 1e6:.0f} MB"
    )


def _summary(rows: list[Row]) -> str:
    judged = [row for row in rows if not row.disturbed]
    close, inside = (sum(getattr(row, name) for row in judged) for name in ("close", "inside"))
    return (
        f"\nOf {len(judged)} fits that others did not disturb ({len(rows)} in all): {close} within {CLOSE:.0%}, "
        f"{inside} inside the interval"
    )
