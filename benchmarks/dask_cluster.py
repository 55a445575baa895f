"""A fit on Dask workers of this machine, one thread each: two beside one, and beside a fit in memory."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
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

ROWS = 4_000_000
CENTERS, ITERATIONS, PENALTY = 1000, 5, 1e-6
WORKERS = (1, 2)
RATIO_TARGET, AGREEMENT_TARGET = 1.7, 1e-6


@dataclass(frozen=True)
class Fit:
    """What a fit took: the solve alone, after rows were made and centers chosen. Workers are None for one in memory."""

    workers: int | None
    seconds: float
    others: float
    client_bytes: int
    coefficients: Array


def run(n: int) -> None:
    described = machine.describe()
    print(machine.headline(described), _legend(n), _HEADER, sep="\n", flush=True)
    fits: list[Fit] = []
    for workers in (*WORKERS, None):
        fits.append(in_fresh_process(_fit, n, workers))
        print(_line(fits[-1], fits[0]), flush=True)
    one, most, memory = fits
    ratio = one.seconds / most.seconds
    apart = max(_distance(fit.coefficients, memory.coefficients) for fit in (one, most))
    disturbed = max(one.others, most.others) > 0.05
    same = "the same" if np.array_equal(one.coefficients, most.coefficients) else "NOT the same"
    print(f"\nCoefficients of {WORKERS[0]} and of {WORKERS[1]} workers are {same} to the bit.")
    for what, met, timed in (
        (f"one worker over {WORKERS[1]}: {ratio:.2f} (asked: at least {RATIO_TARGET})", ratio >= RATIO_TARGET, True),
        (f"apart from memory: {apart:.1e} (asked: at most {AGREEMENT_TARGET:g})", apart <= AGREEMENT_TARGET, False),
    ):
        # Disturbing one worker more than two makes the ratio better than it is: not even one that is met counts.
        print(f"  {what}: {'not judged: disturbed' if disturbed and timed else 'met' if met else 'MISSED'}")
    rows = [{key: value for key, value in asdict(fit).items() if key != "coefficients"} for fit in fits]
    content = {"machine": described, "rows": n, "fits": rows, "ratio": ratio, "apart": apart}
    report.write_json(report.FOLDER / "dask.json", content)


def _fit(n: int, workers: int | None) -> Fit:
    if workers is None:
        torch.set_num_threads(1)
        X, y = trips.make_trips(n)
        return _solve(np.ascontiguousarray(X), y, None)
    from distributed import Client, LocalCluster

    # Each fit has a cluster of its own: workers of the other one would wait on the same cores.
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        table = data.open(_made_by_workers(n), target=len(trips.LENGTH_SCALES))
        assert table.y is not None
        return _solve(table.X, table.y, workers)


def _made_by_workers(n: int) -> Any:
    """A Dask array of features and target, each chunk made where it will stay."""
    import dask.array as da
    from dask import delayed

    width, starts = len(trips.LENGTH_SCALES) + 1, range(0, n, trips.CHUNK)
    counts = [min(trips.CHUNK, n - start) for start in starts]
    blocks = [
        da.from_delayed(delayed(_block)(number, count), (count, width), np.float32)
        for number, count in enumerate(counts)
    ]
    return da.concatenate(blocks)


def _block(number: int, count: int) -> Array:
    return trips.rows(trips.chunk(number, seed=0))[:count]


def _solve(points: Any, y: Array, workers: int | None) -> Fit:
    kernel = gf.kernels.Gaussian(list(trips.LENGTH_SCALES.values()))
    chosen = np.sort(np.random.default_rng(0).choice(len(points), CENTERS, replace=False))
    C = points.take(chosen) if workers else points[chosen]
    problem = LeastSquares(gf.KernelMatrix(kernel, points, C), torch.from_numpy(y - y.mean())[:, None], PENALTY)
    problem.K @ np.ones(CENTERS, np.float32)  # what is loaded and started once is no part of a fit
    began, others, own = time.perf_counter(), Others(), _children_seconds()
    solution = solve(problem, Falkon(tolerance=0.0, max_iterations=ITERATIONS))
    seconds = time.perf_counter() - began
    taken = others.taken() - (_children_seconds() - own)
    return Fit(workers, seconds, taken / (THREADS * seconds), peak(), solution.coefficients.numpy())


def _children_seconds() -> float:
    """Processor time of the workers."""
    import psutil

    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(spent.user + spent.system for spent in times)


def _distance(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def _legend(n: int) -> str:
    return (
        f"\nDask: {ITERATIONS} iterations of falkon with {CENTERS:,} centers, penalty {PENALTY:g}, on {n:,} made-up "
        f"taxi trips of {len(trips.LENGTH_SCALES)} features in float32. Workers are processes of one thread; they make "
        "the rows, and the client never has them. In memory: one thread as well.\n"
        "others: processor time that the rest of the machine took meanwhile; client: its peak memory, all included."
    )


_HEADER = f"{'':10} {'seconds':>9} {'ratio':>6} {'others':>7} {'client':>9}"


def _line(fit: Fit, one: Fit) -> str:
    name = "in memory" if fit.workers is None else f"{fit.workers} worker{'s' if fit.workers > 1 else ''}"
    return (
        f"{name:10} {fit.seconds:9.2f} {one.seconds / fit.seconds:6.2f} {fit.others:7.0%} "
        f"{fit.client_bytes / 1e6:6.0f} MB"
    )
