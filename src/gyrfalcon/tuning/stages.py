"""Tuning in stages: several kernels for a few steps, then the best; few centers for noise, then all for detail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.kernels import Kernel
from gyrfalcon.solvers import LeastSquares

from .exact import Exact
from .journal import Journal
from .objectives import GCV, LeaveOneOut, Method, Objective
from .optimizers import FAILURES
from .parameters import as_array, length_scales, rescaled
from .path import held_out
from .rows import EXACT_ENTRIES, Data, noise_of
from .settings import Tuning
from .stochastic import Stochastic
from .trace import Candidate, Stage, Step, Trace
from .tuner import Tuned, tune

SCREENING = 8  # steps with each of several kernels, before the best goes on alone
WIDE_ROWS, WIDE_CENTERS = 1500, 150  # what is noise: many rows to a center
DEEP_ROWS, DEEP_STEPS = 800, 10  # what is not: every row is a center
FEW_CENTERS, MANY_CENTERS = 300, 700  # by which kernels are chosen, and at last length scales and noise
HELD = 0.25  # of the rows, to judge by
NOTHING, ATTEMPTS = 0.9, 3  # of the variance, if left unexplained, calls for another start; starts in all
CLEARLY = 0.95  # of the evidence's leave-one-out error, if others have less, is no accident
STRETCH = 2.0  # of length scales and rows, from one start to the next
RECALL = 8.0  # times where they started, the longest that length scales are when all rows become centers
SHORTER, SHORTENINGS = 0.6, 4  # of the length scales found, and so on, while that helps; how often at most
NOISES = np.logspace(-1.5, 1, 6)  # tried with each, in units of what was found
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
    log: list[Stage] = field(default_factory=list)  # the decisions so far, of all runs together

    def decide(
        self, name: str, criterion: str, tried: Sequence[tuple[Tuned, float, float]], chosen: int, why: str
    ) -> None:
        """Write a decision down: what was tried, its noise and its value, and which was taken."""
        candidates = [Candidate(repr(tuned.problem.K.kernel), noise, value) for tuned, noise, value in tried]
        self.log.append(Stage(name, criterion, candidates, chosen, why))

    @property
    def method(self) -> Method:
        wish = self.settings.method
        small = self.entries <= EXACT_ENTRIES
        return Exact() if wish == "exact" or (wish == "auto" and small) else Stochastic(probes=self.settings.probes)

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

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
    """Rows to tune on, more rows to judge by, and how centers are chosen among them."""

    few: Data
    many: Data
    centers: Callable[[int, Data], AnyPoints]
    memory_budget: int

    def judge(self, tuned: Tuned, count: int, *, fixed_penalty: bool) -> Judged:
        """By errors on rows held out, with so many centers, the noise being chosen by them too.

        Generalized cross-validation would do for length scales; noise it takes to be too small where there are many
        centers.
        """
        noise = noise_of(tuned.problem)
        noises = np.array([noise]) if fixed_penalty else np.maximum(noise * NOISES, LEAST_NOISE)
        n = self.many.points.shape[0]
        held = np.random.default_rng(0).permutation(n) < n * HELD
        C = self.centers(count, self.many.at(np.flatnonzero(~held)))
        problem = self.many.problem(tuned.problem.K.kernel, C, noise, self.memory_budget)
        errors = held_out(problem, noises / problem.total_weight / (1 - HELD), held)
        best = int(np.argmin(errors))
        constant = float(np.mean(problem.value_at_zero)) or 1.0
        return Judged(float(errors[best]) / constant, float(noises[best]), tuned)


class Judged(NamedTuple):
    """An error, over that of a constant, the noise that has it, and what was judged."""

    error: float
    noise: float
    tuned: Tuned


def by_evidence(candidates: list[LeastSquares], run: Run, per_feature: bool) -> Tuned:
    """Tune by the evidence, for few rows that are all centers; by leave-one-out errors where that calls signal noise.

    Of few rows of many classes, the evidence may prefer a function of no amplitude at all.
    """
    evident = tune_best(candidates, run, per_feature)
    if run.fixed_kernel:
        return evident
    errors = LeaveOneOut()
    try:
        cautious = tune_best(candidates, replace(run, objective=errors), per_feature=False)
        found, least = (errors.evaluate(tuned.problem, run.method).value for tuned in (evident, cautious))
    except FAILURES:
        return evident
    taken = int(least < CLEARLY * found)
    run.decide(
        "evidence or errors",
        "leave-one-out error",
        [(evident, noise_of(evident.problem), found), (cautious, noise_of(cautious.problem), least)],
        taken,
        "the leave-one-out error is clearly lower" if taken else "the evidence, unless errors say clearly otherwise",
    )
    return cautious if taken else evident


def wide_and_deep(
    kernels: Sequence[Kernel], sample: Sample, noise: float, run: Run, per_feature: bool
) -> tuple[Tuned, float]:
    """Tune on many rows with few centers, then, from there, on few rows that are all centers; keep the better.

    The first sees through noise, the second sees detail that few centers cannot follow. Which of them a model with many
    centers needs is left to rows held out of more than either has, with more centers; both have too few to follow
    detail as that model can, so shorter length scales are tried as well. If all that finds next to nothing learned, it
    starts again with other and more rows, from smoother functions: noise can lead many length scales astray.
    """
    found: list[Judged] = []
    for attempt in range(ATTEMPTS):
        found += _attempt(kernels, sample, noise, run, per_feature, attempt)
        run.decide(
            "rows and centers",
            f"error on held-out rows with {MANY_CENTERS} centers, of that of a constant",
            [(one.tuned, one.noise, one.error) for one in found],
            found.index(min(found, key=_error)),
            "lowest error of those tuned on many rows with few centers and on few rows that are all centers",
        )
        if run.fixed_kernel or min(found, key=_error).error < NOTHING:
            break
        kernels = [rescaled(kernel, STRETCH) for kernel in kernels]
    best = min(found, key=_error)
    for _ in range(0 if run.fixed_kernel else SHORTENINGS):
        if run.late:
            break
        problem = best.tuned.problem
        shorter = problem.at(kernel=rescaled(problem.K.kernel, SHORTER), penalty=best.noise / problem.total_weight)
        other = sample.judge(replace(best.tuned, problem=shorter), MANY_CENTERS, fixed_penalty=run.fixed_penalty)
        shortened = other.error < best.error
        run.decide(
            "shorter length scales",
            f"error on held-out rows with {MANY_CENTERS} centers, of that of a constant",
            [(one.tuned, one.noise, one.error) for one in (best, other)],
            int(shortened),
            "shorter ones err less" if shortened else "shorter ones do not err less",
        )
        if not shortened:
            break
        best = other
    return best.tuned, best.noise


def _attempt(
    kernels: Sequence[Kernel], sample: Sample, noise: float, run: Run, per_feature: bool, attempt: int
) -> list[Judged]:
    random = np.random.default_rng(attempt)
    growth = int(STRETCH**attempt)
    wide, deep = sample.few.part(growth * WIDE_ROWS, random), sample.few.part(DEEP_ROWS, random)
    C, budget = sample.centers(WIDE_CENTERS, wide), sample.memory_budget
    judge = partial(sample.judge, fixed_penalty=run.fixed_penalty)
    problems = [wide.problem(kernel, C, noise, budget) for kernel in kernels]
    run = replace(run, objective=GCV(), entries=growth * WIDE_ROWS * WIDE_CENTERS)
    first = tune_best(problems, run, per_feature, lambda tuned: judge(tuned, FEW_CENTERS).error)
    if run.fixed_kernel:
        return [judge(first, MANY_CENTERS)]
    start = deep.problem(_recalled(first), None, noise_of(first.problem), budget)
    second = replace(run, objective=LeaveOneOut(), entries=DEEP_ROWS**2)(start, DEEP_STEPS, per_feature=per_feature)
    return [judge(tuned, MANY_CENTERS) for tuned in (first, second)]


def _recalled(tuned: Tuned) -> Kernel:
    """Its kernel, with features that a few centers had no use for within reach of a gradient again."""
    kernel, start = tuned.problem.K.kernel, tuned.trace.steps[0].parameters
    scales = length_scales(kernel)
    near = {name: np.minimum(scale, RECALL * as_array(start[name])).tolist() for name, scale in scales.items()}
    return kernel.with_parameters(near)


def _error(found: Judged) -> float:
    return found.error


def tune_best(
    candidates: list[LeastSquares], run: Run, per_feature: bool, judge: Callable[[Tuned], Any] | None = None
) -> Tuned:
    """From the best of some places to start: the one with the lowest objective after a few steps, or as judged."""
    steps = run.settings.steps
    if len(candidates) == 1:
        return run(candidates[0], steps, per_feature=per_feature)
    criterion = (
        f"{run.objective.name} after {min(SCREENING, steps)} steps" if judge is None else "error on held-out rows"
    )
    judge = judge or (lambda tuned: min(tuned.trace.values))
    screened = [(problem, run(problem, min(SCREENING, steps), per_feature=per_feature)) for problem in candidates]
    values = [float(judge(tuned)) for _, tuned in screened]
    chosen = int(np.argmin(values))
    tried = [(tuned, noise_of(tuned.problem), value) for (_, tuned), value in zip(screened, values, strict=True)]
    run.decide("kernel", criterion, tried, chosen, "lowest value")
    problem, tuned = screened[chosen]
    if steps <= SCREENING:
        return tuned
    return run(problem, steps - SCREENING, per_feature=per_feature, resume=tuned.trace)
