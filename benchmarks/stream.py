"""A fit of rows that are read from a Parquet file in every pass: time, memory, and how busy the processors are."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.datasets import trips
from gyrfalcon.solvers import Falkon, LeastSquares, solve

from . import THREADS, machine, report
from .process import in_fresh_process, peak
from .timing import Others

Array = np.ndarray[Any, Any]

ROWS = (100_000, 1_000_000, 4_000_000, 20_000_000)
IN_MEMORY = 1_000_000
CENTERS, ITERATIONS, PENALTY = 1000, 10, 1e-6
FEW = 5000  # rows of the fit before the one that counts
CACHE = report.FOLDER / "trips"
MEMORY_TARGET, BUSY_TARGET, RATIO_TARGET, SLOPE_TARGET = 1.2e9, 0.85, 1.25, 0.05


@dataclass(frozen=True)
class Fit:
    """What a fit took, and its passes over the rows alone. `busy` and `others` are shares of the processor time that
    there was: its own and that of others."""

    rows: int
    streamed: bool
    seconds: float
    passes: float
    busy: float
    others: float
    peak_bytes: int
    error: float

    @property
    def nanoseconds_per_row(self) -> float:
        return 1e9 * self.seconds / self.rows


def run(most: int, cache: Path) -> None:
    described = machine.describe()
    print(machine.headline(described), _legend(), sep="\n", flush=True)
    sizes = sorted({n for n in ROWS if n <= most} | {most})
    cache.mkdir(parents=True, exist_ok=True)
    for n in {*sizes, IN_MEMORY}:
        if not trips_file(cache, n).exists():
            trips.write_trips(trips_file(cache, n), n)
    memory = in_fresh_process(_fit, trips_file(cache, IN_MEMORY), False)
    print(_HEADER, _line(memory, memory), sep="\n", flush=True)
    fits = []
    for n in sizes:
        fits.append(in_fresh_process(_fit, trips_file(cache, n), True))
        print(_line(fits[-1], memory), flush=True)
    slope = float(np.polyfit(np.log(sizes), np.log([fit.passes for fit in fits]), 1)[0]) if len(fits) > 1 else None
    _judge(fits[-1], memory, slope)
    content = {"in_memory": asdict(memory), "streamed": [asdict(fit) for fit in fits], "slope": slope}
    report.write_json(report.FOLDER / "stream.json", {"machine": described, **content})


def trips_file(cache: Path, n: int) -> Path:
    return cache / f"trips-{n}.parquet"


def _fit(path: Path, streamed: bool) -> Fit:
    machine.set_threads()
    few = data.open(path).X.rows(0, FEW)
    _solve(data.open(few[:, :-1]).X, few[:, -1])  # what is loaded and started once is no part of a fit
    ready = None if streamed else _read(path)  # nor is reading, for one in memory
    began, own, others = time.perf_counter(), time.process_time(), Others()
    points, y = _open(path) if ready is None else ready
    error, passes = _solve(points, y)
    seconds = time.perf_counter() - began
    there = THREADS * seconds
    busy, taken = (time.process_time() - own) / there, others.taken() / there
    return Fit(len(points), streamed, seconds, passes, busy, taken, peak(), error)


def _open(path: Path) -> tuple[data.Source, Array]:
    table = data.open(path, target=trips.TARGET)
    assert table.y is not None
    return table.X, table.y


def _read(path: Path) -> tuple[Array, Array]:
    X, y = _open(path)
    return X.to_array(), y


def _solve(points: Any, y: Array) -> tuple[float, float]:
    """The root of the mean square that is left, penalty included, and the seconds of the passes over the rows."""
    kernel = gf.kernels.Gaussian(list(trips.LENGTH_SCALES.values()))
    C = gf.centers.select("uniform", kernel, points, CENTERS, random=np.random.default_rng(0))
    y -= y.mean()  # in place: a copy would be memory that no fit needs
    problem = LeastSquares(gf.KernelMatrix(kernel, points, C), torch.from_numpy(y[:, None]), PENALTY)
    solution = solve(problem, Falkon(tolerance=0.0, max_iterations=ITERATIONS))
    record = solution.record
    return float(np.sqrt(np.sum(record.objective))), record.seconds["right_side"] + record.seconds["iterate"]


def _legend() -> str:
    return (
        f"\nStream: {CENTERS:,} uniform centers and {ITERATIONS} iterations of falkon, penalty {PENALTY:g}, on made-up "
        f"taxi trips of {len(trips.LENGTH_SCALES)} features in float32, {THREADS} threads, a process for each fit.\n"
        "Streamed: opening the Parquet file, choosing centers and every pass included. In memory: reading is not.\n"
        "passes: seconds of the right side and the iterations alone, whose slope is taken; the rest is opening, "
        "centers and m × m work.\n"
        "busy: processor time of the fit over that of its threads; others: what the rest of the machine took meanwhile."
    )


_HEADER = (
    f"{'':10} {'rows':>11} {'seconds':>9} {'passes':>8} {'ns/row':>8} {'ratio':>6} "
    f"{'busy':>6} {'others':>7} {'peak':>9} {'error':>7}"
)


def _line(fit: Fit, memory: Fit) -> str:
    return (
        f"{'streamed' if fit.streamed else 'in memory':10} {fit.rows:>11,} {fit.seconds:9.2f} {fit.passes:8.2f} "
        f"{fit.nanoseconds_per_row:8.0f} {fit.nanoseconds_per_row / memory.nanoseconds_per_row:6.2f} "
        f"{fit.busy:6.0%} {fit.others:7.0%} {fit.peak_bytes / 1e6:6.0f} MB {fit.error:7.4f}"
    )


def _judge(last: Fit, memory: Fit, slope: float | None) -> None:
    ratio = last.nanoseconds_per_row / memory.nanoseconds_per_row
    disturbed = last.others > 0.05
    judged = {
        f"peak memory {last.peak_bytes / 1e9:.2f} GB (asked: at most {MEMORY_TARGET / 1e9:g})": last.peak_bytes
        <= MEMORY_TARGET,
        f"busy {last.busy:.0%} (asked: at least {BUSY_TARGET:.0%})": last.busy >= BUSY_TARGET,
        f"time per row over that in memory {ratio:.2f} (asked: at most {RATIO_TARGET})": ratio <= RATIO_TARGET,
    }
    if slope is not None:
        close = abs(slope - 1) <= SLOPE_TARGET
        judged[f"slope of the log of passes against log n {slope:.3f} (asked: 1 ± {SLOPE_TARGET})"] = close
    print(f"\nWith {last.rows:,} rows:")
    for what, met in judged.items():
        timed = not what.startswith("peak")
        print(f"  {what}: {'met' if met else 'not judged: disturbed' if disturbed and timed else 'MISSED'}")
