"""Measure the rates of this machine with one or two seconds of miniature fits."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gyrfalcon import centers, data
from gyrfalcon.kernels import Kernel
from gyrfalcon.linalg.triangles import SingularError
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.progress import Bar
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.solvers.falkon import NormalEquations

from .law import Law

Array = np.ndarray[Any, Any]

FEW_CENTERS, MANY_CENTERS = 512, 1024  # large enough to show what grows with m, small enough to factor fast
FEW_ROWS, MOST_ROWS = 4096, 1 << 17
PRODUCT_SECONDS = 0.025  # how long a product with many rows should take
KEPT_BYTES = 1 << 25  # size of a K that is kept, large enough that it is read from memory and not from cache
PASSES, SHORT_PASSES = 2, 8  # passes in each miniature fit, and in the smallest, which shows the fixed cost of a pass
ROUNDS = 3  # repetitions, unless the machine is so slow or busy that they take too long
PATIENCE, LONGEST = 1.0, 2.5  # seconds after which no repetition starts if the fastest agree, and if they do not
ALIKE = 1.1  # ratio of two times up to which they agree
FILE_NUMBERS = 1 << 20  # numbers in the file that is read
PENALTY = 1e-6


@dataclass(frozen=True)
class Conditions:
    """Everything that the rates depend on, which excludes n, m, the iterations and the workers."""

    d: int
    t: int
    dtype: str
    kernel: Kernel
    devices: tuple[str, ...] | None
    storage: str
    kept: bool
    sampled: int  # rows per center that are sampled for the preconditioner
    threads: int


@dataclass(frozen=True)
class Rates:
    """The laws of the parts of a fit; comments list the terms of each law."""

    centers: Law  # 1, n, m
    factor: Law  # m², m³
    right_side: Law  # 1, n, n·m
    product: Law  # 1, n, n·m
    precondition: Law  # 1, m²
    filling: Law  # n·m, for a K that is kept
    reading: Law  # n·d
    reading_work: Law  # n·d, in CPU-seconds
    seconds: float  # how long the calibration took


@lru_cache(maxsize=64)
def calibrate(conditions: Conditions) -> Rates:
    """Measure the rates, once per process for the same conditions."""
    with Bar("calibrating to this machine", verbose=True):
        return _measured(conditions)


def _measured(conditions: Conditions) -> Rates:
    began = time.perf_counter()
    first = _MiniatureFit(conditions, FEW_ROWS, FEW_CENTERS, SHORT_PASSES)
    first.run()
    rows = _rows(conditions, min(first.samples["product"]))
    first.samples.clear()  # the first time started threads and loaded libraries
    fewer = max(conditions.sampled * MANY_CENTERS, rows * FEW_CENTERS // MANY_CENTERS)
    fits = [first, _MiniatureFit(conditions, rows, FEW_CENTERS), _MiniatureFit(conditions, fewer, MANY_CENTERS)]
    reading, reading_work = _reading(conditions)
    rounds, started = 0, time.perf_counter()
    while rounds == 0 or time.perf_counter() - started < _limit(rounds, fits):
        for fit in fits:  # in turns, so that what disturbs the machine for a while does not meet one of them alone
            fit.run()
        rounds += 1

    def law(part: str, terms: Callable[[float, float], list[float]]) -> Law:
        return Law.fit([terms(fit.n, fit.m) for fit in fits], [fit.samples[part] for fit in fits])

    return Rates(
        centers=law("centers", lambda n, m: [1, n, m]),
        factor=law("factor", lambda n, m: [m**2, m**3]),
        right_side=law("right_side", lambda n, m: [1, n, n * m]),
        product=law("product", lambda n, m: [1, n, n * m]),
        precondition=law("precondition", lambda n, m: [1, m**2]),
        filling=law("first_product", lambda n, m: [n * m]) if conditions.kept else Law((0.0,), (0.0,)),
        reading=reading,
        reading_work=reading_work,
        seconds=time.perf_counter() - began,
    )


def _rows(conditions: Conditions, seconds: float) -> int:
    """How many rows make a product long enough to be timed, given the time with few rows."""
    rows = FEW_ROWS * PRODUCT_SECONDS / seconds
    if conditions.kept:
        rows = KEPT_BYTES / (FEW_CENTERS * np.dtype(conditions.dtype).itemsize)
    return int(np.clip(rows, 2 * FEW_ROWS, MOST_ROWS))


def _limit(rounds: int, fits: list[_MiniatureFit]) -> float:
    """Seconds after which no other round begins: soon if the fastest product of each fit was met a second time, and so
    had the machine for itself.
    """
    fastest = (sorted(fit.samples["product"])[:2] for fit in fits)
    settled = rounds >= ROUNDS and all(second < ALIKE * best for best, second in fastest)
    return PATIENCE if settled else LONGEST


class _MiniatureFit:
    """A fit of synthetic points in a few passes, and how long its parts took in each run."""

    def __init__(self, conditions: Conditions, n: int, m: int, passes: int = PASSES):
        self.conditions, self.n, self.m, self.passes = conditions, n, m, passes
        self.samples: dict[str, list[float]] = defaultdict(list)
        self._random = np.random.default_rng(0)
        self._points = _points(self._random, n, conditions)
        self._targets = torch.from_numpy(self._random.standard_normal((n, conditions.t)).astype(conditions.dtype))

    def run(self) -> None:
        at, devices = self.conditions, self.conditions.devices
        began = time.perf_counter()
        C = centers.select("uniform", at.kernel, self._points, self.m, random=self._random)
        self._note("centers", began)
        # New each time: a K that is kept would be kept from one run to the next.
        K = KernelMatrix(at.kernel, self._points, C, cache=at.kept, devices=None if devices is None else list(devices))
        problem = LeastSquares(K, self._targets, PENALTY)
        try:
            equations = NormalEquations(problem, at.sampled * self.m or None)
        except SingularError:
            raise ValueError(f"kernel: {at.kernel!r} is not positive definite: falkon cannot fit it") from None
        self.samples["factor"].append(problem.seconds["factor"])
        began = time.perf_counter()
        gamma = equations.right_side(problem.sides[0]) / problem.value_at_zero  # both are what an iteration starts from
        self._note("right_side", began)
        for done in range(1 + self.passes):
            problem.seconds.clear()
            equations.operator(gamma)
            # The first one fills a K that is kept, and meets threads of the factoring that still wait for work.
            self.samples["product" if done else "first_product"].append(problem.seconds["iterate"])
            self.samples["precondition"].append(problem.seconds["precondition"])

    def _note(self, part: str, began: float) -> None:
        self.samples[part].append(time.perf_counter() - began)


def _points(random: np.random.Generator, n: int, conditions: Conditions) -> Array:
    """Points whose distances are near one, however many features there are."""
    points = random.standard_normal((n, conditions.d), dtype=np.float32)
    points /= np.sqrt(conditions.d)
    return points.astype(conditions.dtype, copy=False)


def _reading(conditions: Conditions) -> tuple[Law, Law]:
    """Rates of reading a file that was just written and so is in the system's cache. A disk may be slower."""
    if conditions.storage == "memory":
        nothing = Law((0.0,), (0.0,))
        return nothing, nothing
    d = conditions.d
    points = _points(np.random.default_rng(0), max(1, FILE_NUMBERS // d), conditions)
    wall, work = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"points.{conditions.storage}"
        data.write(path, [f"x{j}" for j in range(d)], [points])
        source = data.open(path, dtype=conditions.dtype).X
        time.sleep(0.05)  # threads of the last product may still spin, and would count as work
        for _ in range(5):
            began, own = time.perf_counter(), time.process_time()
            for _ in source.chunks():
                pass
            wall.append(time.perf_counter() - began)
            work.append(time.process_time() - own)
    return Law.fit([[points.size]], [wall]), Law.fit([[points.size]], [work])
