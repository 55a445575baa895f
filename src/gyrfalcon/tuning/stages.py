"""Runs of tuning that share their settings, and the best of several places to start from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gyrfalcon.solvers import LeastSquares

from .exact import Exact
from .journal import Journal
from .objectives import Method, Objective
from .rows import EXACT_ENTRIES, noise_of
from .settings import Tuning
from .stochastic import Stochastic
from .trace import Candidate, Stage, Step, Trace
from .tuner import Tuned, tune

SCREENING = 8  # steps with each of several kernels, before the best goes on alone
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
        shrinkage: float = 0.0,
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
            shrinkage=shrinkage,
            callback=self.callback,
            resume=resume,
            journal=self.journal,
        )


def tune_best(candidates: list[LeastSquares], run: Run, per_feature: bool) -> Tuned:
    """From the best of some places to start: the one with the lowest objective after a few steps."""
    steps = run.settings.steps
    if len(candidates) == 1:
        return run(candidates[0], steps, per_feature=per_feature)
    few = min(SCREENING, steps)
    screened = [run(problem, few, per_feature=per_feature) for problem in candidates]
    values = [min(tuned.trace.values) for tuned in screened]
    chosen = int(np.argmin(values))
    tried = [(tuned, noise_of(tuned.problem), value) for tuned, value in zip(screened, values, strict=True)]
    run.decide("kernel", f"{run.objective.name} after {few} steps", tried, chosen, "lowest value")
    if steps <= SCREENING:
        return screened[chosen]
    return run(candidates[chosen], steps - SCREENING, per_feature=per_feature, resume=screened[chosen].trace)
