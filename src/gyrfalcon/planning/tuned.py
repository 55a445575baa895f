"""The time of a fit with default arguments, which tunes: a miniature is measured, and its solve is scaled."""

from __future__ import annotations

import math
import time
from functools import lru_cache
from typing import NamedTuple

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
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.solvers.choice import expected

from .law import Seconds

MINIATURE_ROWS = 2000  # about as many as tuning looks at
MINIATURE_FEATURES = 300  # at most: with more, tuning takes longer in proportion
OTHER_SHARE = 0.4  # of the time of tuning: what a trial of centers and the rows left out for intervals take beside it
NUMBER_NS = 30.0  # for each number in the table, of checks and of what is made of all rows
SPREAD = 1.8  # how many times longer or shorter tuning may take, which depends on what there is to learn
BEYOND = 1.5  # times the seconds that a solve is allowed, that few fits exceed
NOISE = 0.1  # over the variance of the prior: moderate


class Rates(NamedTuple):
    """Seconds that a miniature fit took beside its solve, and those of its solve over what was expected."""

    tuning: float
    slowness: float


def seconds(n: int, d: int, t: int, dtype: str, memory_budget: int) -> dict[str, Seconds]:
    """Seconds of "tuning", which is all that comes before the solve and after it, and of "solve"."""
    rates = calibrate(min(n, MINIATURE_ROWS), min(d, MINIATURE_FEATURES), t, dtype, torch.get_num_threads())
    tuning = rates.tuning * max(1.0, d / MINIATURE_FEATURES)
    count = usual_centers(n, t, dtype, memory_budget)
    if count < n:
        tuning *= 1 + OTHER_SHARE
    tuning += 1e-9 * NUMBER_NS * n * d * rates.slowness
    low, high = (rates.slowness * price for price in _prices(n, d, t, dtype, count, memory_budget))
    # A trial decides which it is: what goes far beyond the time that is allowed has to lower the error too much.
    worthwhile = min(high / 2, BEYOND * rates.slowness * allowed_seconds(n, d))
    solve = Seconds(max(low, worthwhile), low / SPREAD, high * SPREAD)
    return {"tuning": Seconds(tuning, tuning / SPREAD, tuning * SPREAD), "solve": solve}


def usual_centers(n: int, t: int, dtype: str, memory_budget: int) -> int:
    """How many centers a fit begins with, which is also the most that it takes."""
    return automatic_count(n, np.dtype(dtype).itemsize, memory_budget, t)


def _prices(n: int, d: int, t: int, dtype: str, count: int, budget: int) -> tuple[float, float]:
    """The seconds that the cheapest and the dearest way to solve are expected to take."""
    if count >= n:
        price = expected(_problem(n, d, t, dtype, n, budget)).seconds
        return price, price
    leaves = Partition()
    ways = ways_to_fit(leaves, count, _problem(n, d, t, dtype, max(count, leaves.centers), budget))
    prices = [way.seconds for way in ways]
    return min(prices), max(prices)


def _problem(n: int, d: int, t: int, dtype: str, m: int, budget: int) -> LeastSquares:
    """A problem of that size, whose points take no memory: only their shapes are looked at."""
    kernel: Kernel = 0.5 * Gaussian() + 0.5 * Matern()  # a sum of two is what tuning finds in the median
    kind = getattr(torch, dtype)
    X = torch.zeros(1, 1, dtype=kind)
    K = KernelMatrix(kernel, Points(X.expand(n, d)), None if m >= n else Points(X.expand(m, d)), memory_budget=budget)
    return LeastSquares(K, torch.zeros(1, 1, dtype=kind).expand(n, t), NOISE / n)


@lru_cache(maxsize=64)
def calibrate(rows: int, features: int, outputs: int, dtype: str, threads: int) -> Rates:
    """Measure a miniature fit, once per process for the same sizes."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, features)).astype(dtype)
    directions = random.standard_normal((features, outputs)) / math.sqrt(features)
    Y = np.sin(2 * X @ directions) + 0.3 * random.standard_normal((rows, outputs))
    with Bar("calibrating to this machine", verbose=True):
        _fit(X[:50], Y[:50])  # what is loaded and started once is no part of a fit
        took, solving = _fit(X, Y)
    miniature = _problem(rows, features, outputs, dtype, rows, 1 << 40)
    return Rates(max(0.0, took - solving), max(solving, 1e-4) / expected(miniature).seconds)


def _fit(X: Array, Y: Array) -> tuple[float, float]:
    """Seconds of a fit, and of its solve; those of the processor where other programs made it wait."""
    model = KernelRegressor(random_state=0, verbose=False)
    began, worked = time.perf_counter(), time.process_time()
    model.fit(X, Y[:, 0] if Y.shape[1] == 1 else Y)
    took, worked = time.perf_counter() - began, time.process_time() - worked
    share = min(1.0, worked / took)
    return share * took, share * sum(model.record_.seconds.values())
