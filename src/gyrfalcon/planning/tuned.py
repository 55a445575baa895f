"""The time of a fit with default arguments, which tunes: a miniature is measured, and its solve is scaled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gyrfalcon.arrays import Array
from gyrfalcon.centers import automatic_count
from gyrfalcon.data import Points
from gyrfalcon.estimators import KernelRegressor
from gyrfalcon.estimators.trial import allowed_seconds, ways_to_fit
from gyrfalcon.kernels import Gaussian, Kernel, Matern
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.partition import Partition
from gyrfalcon.progress import Bar
from gyrfalcon.solvers import Exact, Falkon, LeastSquares, Solver, solve
from gyrfalcon.solvers.choice import exact_seconds, expected, falkon_seconds

from .law import Seconds

MINIATURE_ROWS = 2000  # enough for tuning to look at batches of them
MINIATURE_FEATURES = 300  # at most: with more, tuning takes longer in proportion
OTHER_SHARE = 0.4  # of the time of tuning: what a trial of centers and the rows left out for intervals take beside it
MANY_ROWS, FEW_CENTERS = 16_000, 500  # of the solve that tells the speed of iterations
SOLVES = 3  # of which the fastest tells the speed of the machine
NUMBER_NS = 30.0  # for each number in the table, of checks and of what is made of all rows
SPREAD = 1.8  # how many times longer or shorter tuning may take, which depends on what there is to learn
BEYOND = 2.0  # times the seconds that a solve is allowed, that few fits exceed
NOISE = 0.1  # over the variance of the prior: moderate


class Rates(NamedTuple):
    """Seconds that a miniature fit took beside its solve, and those of solves over what was expected: of one where all
    rows are centers, and of one in iterations."""

    tuning: float
    exact: float
    iterative: float


def seconds(n: int, d: int, t: int, dtype: str, memory_budget: int) -> dict[str, Seconds]:
    """Seconds of "tuning", which is all that comes before the solve and after it, and of "solve"."""
    rates = calibrate(min(n, MINIATURE_ROWS), min(d, MINIATURE_FEATURES), t, dtype, torch.get_num_threads())
    tuning = rates.tuning * max(1.0, d / MINIATURE_FEATURES)
    count = usual_centers(n, t, dtype, memory_budget)
    if count < n:
        tuning *= 1 + OTHER_SHARE
    tuning += 1e-9 * NUMBER_NS * n * d
    low, high = _solving(n, d, t, dtype, count, memory_budget, rates)
    # A trial decides which it is: what goes far beyond the time that is allowed has to lower the error too much.
    worthwhile = min(high, BEYOND * rates.iterative * allowed_seconds(n, d))
    solving = Seconds(max(low, worthwhile), low / SPREAD, high * SPREAD)
    return {"tuning": Seconds(tuning, tuning / SPREAD, tuning * SPREAD), "solve": solving}


def usual_centers(n: int, t: int, dtype: str, memory_budget: int) -> int:
    """How many centers a fit begins with, which is also the most that it takes."""
    return automatic_count(n, np.dtype(dtype).itemsize, memory_budget, t)


def _solving(n: int, d: int, t: int, dtype: str, count: int, budget: int, rates: Rates) -> tuple[float, float]:
    """The seconds that the cheapest and the dearest way to solve are expected to take on this machine."""
    if count >= n:
        price = rates.exact * expected(_problem(n, d, t, dtype, n, budget)).seconds
        return price, price
    leaves = Partition()
    ways = ways_to_fit(leaves, count, _problem(n, d, t, dtype, max(count, leaves.centers), budget))
    prices = [way.seconds * (rates.iterative if way.partition is None else rates.exact) for way in ways]
    return min(prices), max(prices)


def _problem(n: int, d: int, t: int, dtype: str, m: int, budget: int) -> LeastSquares:
    """A problem of that size, whose points take no memory: only their shapes are looked at."""
    kernel = _usual_kernel(d)
    kind = getattr(torch, dtype)
    X = torch.zeros(1, 1, dtype=kind)
    K = KernelMatrix(kernel, Points(X.expand(n, d)), None if m >= n else Points(X.expand(m, d)), memory_budget=budget)
    return LeastSquares(K, torch.zeros(1, 1, dtype=kind).expand(n, t), NOISE / n)


def _usual_kernel(features: int) -> Kernel:
    """A sum of two, which is what tuning finds in the median."""
    return 0.5 * Gaussian(math.sqrt(features)) + 0.5 * Matern(math.sqrt(features))


@lru_cache(maxsize=64)
def calibrate(rows: int, features: int, outputs: int, dtype: str, threads: int) -> Rates:
    """Measure a miniature fit, once per process for the same sizes."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, features)).astype(dtype)
    directions = random.standard_normal((features, outputs)) / math.sqrt(features)
    Y = np.sin(2 * X @ directions) + 0.3 * random.standard_normal((rows, outputs))
    with Bar("calibrating to this machine", verbose=True):
        _fit(X[:50], Y[:50])  # what is loaded and started once is no part of a fit
        tuning = _fit(X, Y)
        kernel = _usual_kernel(features)
        few = LeastSquares(KernelMatrix(kernel, X), torch.from_numpy(Y.astype(dtype)), NOISE / rows)
        copies = max(1, MANY_ROWS // rows)
        K = KernelMatrix(kernel, np.tile(X, (copies, 1)), X[:FEW_CENTERS])
        many = LeastSquares(K, few.Y.repeat(copies, 1), NOISE / (copies * rows), intercept=True)
        return Rates(tuning, _slowness(few, Exact()), _slowness(many, Falkon()))


def _slowness(problem: LeastSquares, solver: Solver[Any]) -> float:
    """Seconds of a solve over those that are expected."""
    price = exact_seconds(problem) if problem.K.symmetric else falkon_seconds(problem, max_iterations=100)
    return min(_seconds(lambda: solve(problem, solver)) for _ in range(SOLVES)) / price


def _fit(X: Array, Y: Array) -> float:
    """Seconds of a fit beside its solve."""
    model = KernelRegressor(random_state=0, verbose=False)
    began = time.perf_counter()
    worked = _seconds(lambda: model.fit(X, Y[:, 0] if Y.shape[1] == 1 else Y))
    share = min(1.0, worked / (time.perf_counter() - began))
    return max(0.0, worked - share * sum(model.record_.seconds.values()))


def _seconds(work: Callable[[], Any]) -> float:
    """Of some work; those of the processor where other programs made it wait."""
    began, worked = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - began, time.process_time() - worked)
