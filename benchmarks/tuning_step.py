"""One step of tuning on half a million rows: its memory, and its time in units of a product with KᵀK."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.tuning import Criterion, Evaluation, Proposed, Stochastic

from . import THREADS, datasets, machine, report, synthetic
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

Array = np.ndarray[Any, Any]

ROWS, CENTERS, FEATURES, PROBES = 500_000, 1000, 30, 20
COLUMNS = PROBES + 1  # the probes and the targets
LEARNING_RATE, STEPS = 0.05, 3  # after the first
MEMORY_TARGET, TIME_TARGET = 300e6, 6.0
PARTS = {"rmv": "right side", "gram_mv": "solve", "__matmul__": "K β", "gradients": "gradient"}


@dataclass
class Clock:
    """Seconds and calls by part of one evaluation, and its seconds in all."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    total: float = 0.0

    def __call__(self, part: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        result = call(*args, **kwargs)
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began
        self.calls[part] = self.calls.get(part, 0) + 1
        return result


class Clocked(gf.KernelMatrix):
    """A kernel matrix that tells a clock what its products take."""

    def __init__(self, K: gf.KernelMatrix, X: Array, clock: Clock):
        super().__init__(K.kernel, X, K.centers, memory_budget=K.memory_budget, cache=False)
        self._clock = clock

    def __matmul__(self, V: Any) -> Any:
        return self._clock("__matmul__", super().__matmul__, V)

    def rmv(self, *args: Any, **kwargs: Any) -> Any:
        return self._clock("rmv", super().rmv, *args, **kwargs)

    def gram_mv(self, *args: Any, **kwargs: Any) -> Any:
        return self._clock("gram_mv", super().gram_mv, *args, **kwargs)

    def gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._clock("gradients", super().gradients, *args, **kwargs)


@dataclass
class Recorder:
    """The stochastic method, which also keeps what each of its evaluations began with."""

    method: Stochastic
    seen: list[tuple[LeastSquares, Stochastic]] = field(default_factory=list)

    def criterion(self, problem: LeastSquares, objective: Criterion, *, gradient: bool) -> Evaluation:
        self.seen.append((problem, copy.deepcopy(self.method)))
        return self.method.criterion(problem, objective, gradient=gradient)


@dataclass
class Step:
    """An evaluation that can be made again and again, from where the one before it left the method."""

    X: Array
    problem: LeastSquares
    method: Stochastic
    best: Clock | None = None

    def __call__(self) -> None:
        clock = Clock()
        problem = dataclasses.replace(self.problem, K=Clocked(self.problem.K, self.X, clock))
        method = copy.deepcopy(self.method)
        began = time.perf_counter()
        Proposed().evaluate(problem, method)
        clock.total = time.perf_counter() - began
        if self.best is None or clock.total < self.best.total:
            self.best = clock


def run() -> None:
    described = machine.describe()
    print(machine.headline(described), legend(), sep="\n")
    grown = in_fresh_process(_peak)
    print(
        f"memory beyond the data, over the first two evaluations: {grown / 1e6:.0f} MB (asked: under "
        f"{MEMORY_TARGET / 1e6:.0f} MB, {'met' if grown < MEMORY_TARGET else 'MISSED'})",
        flush=True,
    )
    found, clocks = in_fresh_process(_race)
    unit = found["gram_mv"]
    print(f"\ngram_mv with {COLUMNS} columns: {unit:.3f} s, best of {found.rounds} interleaved rounds\n{HEADER}")
    for number, clock in enumerate(clocks, start=2):
        print(line(number, clock, unit))
    ratio = float(np.mean([clock.total for clock in clocks])) / unit
    print(
        f"mean of the steps over gram_mv: {ratio:.2f} (asked: at most {TIME_TARGET:g}, "
        f"{found.verdict(ratio <= TIME_TARGET)})"
    )
    content = {
        "extra_bytes": grown,
        "gram_mv": unit,
        "steps": [dataclasses.asdict(clock) for clock in clocks],
        "ratio": ratio,
        "rounds": found.rounds,
        "disturbed": found.disturbed,
    }
    report.write_json(report.FOLDER / "tuning_step.json", {"machine": described, **content})


def _problem() -> tuple[Array, LeastSquares]:
    """The points, and the problem on them."""
    X, y, _, _ = synthetic.oblique(ROWS, 0, np.float32, d=FEATURES)
    y = (y - y.mean()) / y.std()
    kernel = gf.kernels.Gaussian([datasets.median_distance(X)] * FEATURES)
    K = gf.KernelMatrix(kernel, X, X[:CENTERS].copy(), cache=False)
    return X, LeastSquares(K, torch.from_numpy(y[:, None]), penalty=1 / ROWS)


def _tune(start: LeastSquares, method: Any, steps: int) -> gf.tuning.Tuned:
    return gf.tuning.tune(
        start, Proposed(), method=method, optimizer="adam", steps=steps, learning_rate=LEARNING_RATE, centers=True
    )


def _peak() -> int:
    machine.set_threads()
    _, start = _problem()
    return peak_beyond(lambda: _tune(start, Stochastic(probes=PROBES), 1))[1]


def _race() -> tuple[Race, list[Clock]]:
    machine.set_threads()
    recorder = Recorder(Stochastic(probes=PROBES))
    X, start = _problem()
    _tune(start, recorder, STEPS)
    steps = [Step(X, *seen) for seen in recorder.seen[1:]]
    V = torch.randn(CENTERS, COLUMNS, generator=torch.Generator().manual_seed(0))
    product = partial(start.K.gram_mv, V, dtype=torch.float64)
    contenders = [timed("gram_mv", product, 1e9), *(timed(f"step {i}", step, 1e9) for i, step in enumerate(steps, 2))]
    found = race(contenders, rounds=3, patience=120)
    return found, [step.best for step in steps if step.best is not None]


def legend() -> str:
    return (
        f"\nTuning step: objective and gradient of Proposed with Stochastic(probes={PROBES}), n = {ROWS:,}, m = "
        f"{CENTERS:,}, d = {FEATURES}, float32, Gaussian kernel with one length scale per feature from the median "
        f"distance, penalty from 1/n, {THREADS} threads.\nThe points are those of Adam, rate {LEARNING_RATE}, on "
        "penalty, length scales and centers."
    )


HEADER = (
    f"{'':8} {'all':>9} {'':>7} |"
    + "".join(f" {title:^19} |" for title in PARTS.values())
    + f" {'the rest':>9}"
    + f"\n{'':8} {'':9} {'ratio':>7} |"
    + "".join(f" {'passes':>6} {'':5} {'ratio':>6} |" for _ in PARTS)
)


def line(number: int, clock: Clock, unit: float) -> str:
    parts = "".join(
        f" {clock.calls.get(part, 0):>6} {'':5} {clock.seconds.get(part, 0.0) / unit:6.2f} |" for part in PARTS
    )
    rest = (clock.total - sum(clock.seconds.values())) / unit
    return f"{f'step {number}':8} {clock.total:7.2f} s {clock.total / unit:7.2f} |{parts} {rest:9.2f}"
