"""A fit that has to end in time: how much time there is, and how many centers it allows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from gyrfalcon.arrays import torch_dtype
from gyrfalcon.data import Points
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares, choose, solve
from gyrfalcon.solvers.choice import expected
from gyrfalcon.threads import one_thread_but_for_products
from gyrfalcon.tuning.rows import Data

TUNING_SHARE = 0.4  # of the time, that tuning may take
FIT_SHARE = 0.7  # of the time that is left, that a fit is expected to take at most
LAST_CALL = 0.9  # of the time, after which no further iteration begins
TRIAL_FACTOR = 3.0  # times that a fit has to be affordable before a trial on a sample is made
NEWTON_FACTOR = 8.0  # what other losses cost, in fits of the squared one
MINIATURE = 2000, 200  # rows and centers of a fit that tells the speed of the machine as it is now
LEAST_CENTERS = 10
ITERATIONS = 20


@dataclass(frozen=True)
class Deadline:
    """Seconds that a fit may take, on the monotonic clock, and when it began."""

    seconds: float
    began: float

    @property
    def left(self) -> float:
        return self.began + self.seconds - time.monotonic()

    @property
    def last_call(self) -> bool:
        """Whether an iteration that begins now might end too late."""
        return self.left <= (1 - LAST_CALL) * self.seconds

    @property
    def tuning_seconds(self) -> float:
        """What tuning may take of it, from now on."""
        return max(1e-3, self.left - (1 - TUNING_SHARE) * self.seconds)


class Affordable(NamedTuple):
    """How many centers there is time for, and whether there is time for a trial before."""

    n_centers: int
    trial: bool


def affordable(
    deadline: Deadline,
    kernel: Kernel,
    data: Data,
    rows: int,
    n_centers: int,
    *,
    noise: float,
    squared: bool,
    memory_budget: int,
) -> Affordable:
    """The number of centers, halved until the fit is expected to end in time.

    The expected time is that of the model by which solvers are chosen, times how much slower than it a miniature fit is
    now on this machine.

    Parameters
    ----------
    deadline : Deadline
    kernel : Kernel
    data : Data
        Rows in memory, which may be a part of all.
    rows : int
        How many there are in all.
    n_centers : int
        How many centers there would be without a deadline.
    noise : float
    squared : bool
        Whether the loss is squared.
    memory_budget : int
    """
    available = min(data.points.shape[0], rows)

    def pose(some: int, count: int) -> LeastSquares:
        X = Points(data.points[:some])
        every = count >= some
        K = KernelMatrix(kernel, X, None if every else Points(data.points[:count]), memory_budget=memory_budget)
        Y = torch.from_numpy(data.Y[:some].copy()).to(dtype=torch_dtype(data.points))
        return LeastSquares(K, Y, noise / some)

    miniature = pose(min(MINIATURE[0], available), min(MINIATURE[1], max(1, available // 2)))
    slowness = max(1.0, _seconds(miniature) / expected(miniature, ITERATIONS).seconds)
    factor = slowness * rows / available * (1.0 if squared else NEWTON_FACTOR)
    count = min(n_centers, rows)
    first = needed = factor * expected(pose(available, count), ITERATIONS).seconds
    while needed > FIT_SHARE * deadline.left and count > LEAST_CENTERS:
        count = max(LEAST_CENTERS, count // 2)
        needed = factor * expected(pose(available, count), ITERATIONS).seconds
    return Affordable(count, trial=TRIAL_FACTOR * first <= FIT_SHARE * deadline.left)


def _seconds(problem: LeastSquares) -> float:
    """Of the faster of two fits: the first may find the machine asleep. They keep to the threads of a small fit, as
    others would tell how long threads wait for a busy core."""
    solver, times = choose(problem)[0], []
    with one_thread_but_for_products():
        for _ in range(2):
            began = time.monotonic()
            solve(problem, solver)
            times.append(time.monotonic() - began)
    return min(times)


def check_time_budget(value: Any) -> float | None:
    """Seconds, or None for as many as it takes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"time_budget must be a positive number of seconds or None, got {value!r}")
    return float(value)
