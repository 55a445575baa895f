"""Tuning in stages: several kernels for a few steps, then the best; few centres for noise, then all for detail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import Points
from gyrfalcon.kernels import Kernel, RadialKernel
from gyrfalcon.solvers import LeastSquares

from .exact import Exact
from .journal import Journal
from .objectives import GCV, LeaveOneOut, Method, Objective
from .parameters import as_array
from .path import cross_validate
from .rows import EXACT_ENTRIES, Data, noise_of
from .settings import Tuning
from .stochastic import Stochastic
from .trace import Step, Trace
from .tuner import Tuned, tune

SCREENING = 8  # steps with each of several kernels, before the best goes on alone
WIDE_ROWS, WIDE_CENTERS = 1500, 150  # what is noise: many rows to a centre
DEEP_ROWS, DEEP_STEPS = 800, 10  # what is not: every row is a centre
JUDGED_CENTERS, FOLDS = 300, 3  # by which kernels and noise are chosen at last
NOTHING, ATTEMPTS = 0.9, 3  # of the variance, if left unexplained, calls for another start; starts in all
STRETCH = 2.0  # of length scales and rows, from one start to the next
NOISES = np.logspace(-1.5, 1, 11)  # tried then, in units of what was found
LEAST_NOISE = 1e-6  # below, rounding of float32 points decides


@dataclass(frozen=True)
class Run:
    """The settings of a run of `tune`."""

    settings: Tuning
    objective: Objective
    entries: int  # of K
    fixed_penalty: bool
    fixed_kernel: bool
    callback: Callable[[Step], bool]
    deadline: float | None  # on the monotonic clock, for all runs together
    moves_centers: bool = True
    journal: Journal | None = None

    @property
    def method(self) -> Method:
        wish = self.settings.method
        small = self.entries <= EXACT_ENTRIES
        return Exact() if wish == "exact" or (wish == "auto" and small) else Stochastic(probes=self.settings.probes)

    def __call__(
        self,
        problem: LeastSquares,
        steps: int,
        *,
        per_feature: bool,
        free: bool = True,
        resume: Trace | None = None,
    ) -> Tuned:
        return tune(
            problem,
            self.objective,
            method=self.method,
            optimizer=self.settings.optimizer,
            steps=steps,
            seconds=None if self.deadline is None else max(0.0, self.deadline - time.monotonic()),
            learning_rate=self.settings.learning_rate,
            patience=self.settings.patience,
            tolerance=self.settings.tolerance,
            penalty=not self.fixed_penalty,
            kernel=not self.fixed_kernel,
            centers=self.settings.centers and self.moves_centers,
            per_feature=per_feature,
            free=free,
            callback=self.callback,
            resume=resume,
            journal=self.journal,
        )


class Sample(NamedTuple):
    """Rows to tune on, more rows to judge by, and how centres are chosen among them."""

    few: Data
    many: Data
    centers: Callable[[int, Data], Points]
    memory_budget: int

    def judge(self, tuned: Tuned, *, fixed_penalty: bool) -> tuple[float, float]:
        """The least cross-validated error of its kernel, over that of a constant, and the noise that has it.

        Generalised cross-validation would do for length scales; noise it takes to be too small where there are many
        centres.
        """
        noise = noise_of(tuned.problem)
        noises = np.array([noise]) if fixed_penalty else np.maximum(noise * NOISES, LEAST_NOISE)
        C = self.centers(JUDGED_CENTERS, self.many)
        problem = self.many.problem(tuned.problem.K.kernel, C, noise, self.memory_budget)
        penalties = noises / problem.total_weight * FOLDS / (FOLDS - 1)
        errors = np.nanmean(cross_validate(problem, penalties, FOLDS, np.random.default_rng(0)), axis=0)
        best = int(np.argmin(errors))
        constant = float(np.mean(problem.value_at_zero)) or 1.0
        return float(errors[best]) / constant, float(noises[best])


def wide_and_deep(
    kernels: Sequence[Kernel], sample: Sample, noise: float, run: Run, per_feature: bool
) -> tuple[Tuned, float]:
    """Tune on many rows with few centres, then, from there, on few rows that are all centres; keep the better.

    The first sees through noise, the second sees detail that few centres cannot follow. Which of them a model with many
    centres needs is left to cross-validation on more rows than either has. If that finds next to nothing learned, it
    starts again with other and more rows, from smoother functions: noise can lead many length scales astray.
    """
    found: list[tuple[float, float, Tuned]] = []
    for attempt in range(ATTEMPTS):
        found += _attempt(kernels, sample, noise, run, per_feature, attempt)
        if run.fixed_kernel or min(found, key=_error)[0] < NOTHING:
            break
        kernels = [_stretched(kernel) for kernel in kernels]
    _, noise, best = min(found, key=_error)
    return best, noise


def _attempt(
    kernels: Sequence[Kernel], sample: Sample, noise: float, run: Run, per_feature: bool, attempt: int
) -> list[tuple[float, float, Tuned]]:
    """Errors, noises and what has them."""
    random = np.random.default_rng(attempt)
    growth = int(STRETCH**attempt)
    wide, deep = sample.few.part(growth * WIDE_ROWS, random), sample.few.part(DEEP_ROWS, random)
    C, budget = sample.centers(WIDE_CENTERS, wide), sample.memory_budget
    judge = partial(sample.judge, fixed_penalty=run.fixed_penalty)
    problems = [wide.problem(kernel, C, noise, budget) for kernel in kernels]
    run = replace(run, objective=GCV(), entries=growth * WIDE_ROWS * WIDE_CENTERS)
    first = tune_best(problems, run, per_feature, judge)
    if run.fixed_kernel:
        return [(*judge(first), first)]
    start = deep.problem(first.problem.K.kernel, None, noise_of(first.problem), budget)
    second = replace(run, objective=LeaveOneOut(), entries=DEEP_ROWS**2)(start, DEEP_STEPS, per_feature=per_feature)
    return [(*judge(tuned), tuned) for tuned in (first, second)]


def _error(found: tuple[float, float, Tuned]) -> float:
    return found[0]


def _stretched(kernel: Kernel) -> Kernel:
    if not isinstance(kernel, RadialKernel):
        return kernel
    scales = STRETCH * as_array(kernel.length_scale)
    return kernel.with_parameters({"length_scale": scales.tolist()})


def tune_best(
    candidates: list[LeastSquares], run: Run, per_feature: bool, judge: Callable[[Tuned], Any] | None = None
) -> Tuned:
    """From the best of some places to start: the one with the lowest objective after a few steps, or as judged."""
    steps = run.settings.steps
    if len(candidates) == 1:
        return run(candidates[0], steps, per_feature=per_feature)
    judge = judge or (lambda tuned: min(tuned.trace.values))
    screened = [(problem, run(problem, min(SCREENING, steps), per_feature=per_feature)) for problem in candidates]
    problem, tuned = min(screened, key=lambda pair: judge(pair[1]))
    if steps <= SCREENING:
        return tuned
    return run(problem, steps - SCREENING, per_feature=per_feature, resume=tuned.trace)
