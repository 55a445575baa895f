"""Tuning for an estimator: on a part of the rows, from starting points that fit the data, whatever they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import Points, device_of, to_tensor
from gyrfalcon.centers.rows import draw, take
from gyrfalcon.kernels import Kernel, RadialKernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares

from .exact import Exact
from .feature_map import improve
from .journal import Journal
from .objectives import GCV, OBJECTIVES, SGPR, LeaveOneOut, Method, Objective
from .optimizers import FAILURES
from .parameters import POSITIVE, as_array
from .path import Grid, PenaltyPath, cross_validate, search
from .settings import Tuning
from .stochastic import Stochastic
from .trace import Step, Trace
from .tuner import Tuned, tune

Array = np.ndarray[Any, Any]

ROWS = 3000
WIDE_ROWS, WIDE_CENTERS = 1500, 150  # what is noise: many rows to a centre
DEEP_ROWS = 800  # what is not: every row is a centre
LEAST = 5  # different rows that tuning needs
ALL_CENTERS = 500  # rows up to which each is a centre
ROWS_PER_CENTER = 10
ROWS_PER_SCALE = 30  # fewer, and length scales of single features fit the noise
MERGED = 5000  # rows that are searched for repetitions
EXACT_ENTRIES = 3e7  # of K, beyond which traces are estimated
MANY_FEATURES = 50  # as pixels are
JUDGED_ROWS, JUDGED_CENTERS, FOLDS = 4500, 300, 3  # by which kernels and noise are chosen at last
NOISES = np.logspace(-1.5, 1, 11)  # tried then, in units of what was found
DEEP_STEPS = 10
SCREENING = 8  # steps with each of several kernels, before the best goes on alone
NOISE = 0.05  # where the search starts, over the sum of the weights; in the middle of what is found on real data
LEAST_NOISE = 1e-6  # below, rounding of float32 points decides
DIGITS = 2  # of what was tuned that are kept: further ones are those of rounding and of the sample
MAP_ROWS, MAP_CENTERS, MAP_STEPS = 20_000, 1000, 8  # each round: rows and centres of the fit, steps of tuning


@dataclass(frozen=True)
class Learned:
    """The kernel, the noise (the penalty times the sum of the weights), centres if they were tuned, and the trace."""

    kernel: Kernel
    noise: float
    centers: Points | None
    trace: Trace | Grid | None


@dataclass(frozen=True)
class Data:
    """What there is to learn from: points, targets of mean zero and unit variance, weights."""

    points: Points
    Y: Array
    weights: Array | None
    floor: Any = 0.0  # what merging rows took out of the mean square of Y

    def merged(self) -> Data:
        """One row for each point, so that a repeated row is what a weighted one is."""
        points, group = center_rules.distinct(self.points, self.weights)
        if points.shape[0] == self.points.shape[0] and self.weights is None:
            return self
        Y, weights, floor = center_rules.merge(self.Y, self.weights, group, points.shape[0])
        return Data(points, Y, weights, floor)

    def part(self, count: int, random: np.random.Generator) -> Data:
        """At most so many rows, drawn among those of positive weight."""
        n = self.points.shape[0]
        used = np.ones(n) if self.weights is None else (self.weights > 0).astype(float)
        if used.sum() <= count and used.all():
            return self
        rows = draw(used, count, random)
        return Data(take(self.points, rows), self.Y[rows], None if self.weights is None else self.weights[rows])

    def problem(self, kernel: Kernel, C: Points | None, noise: float, memory_budget: int) -> LeastSquares:
        """With every row as a centre if C is None."""
        X = self.points
        if X.shape[0] * (X if C is None else C).shape[0] <= EXACT_ENTRIES:  # more stay in their type: Stochastic can
            X, C = (p if p is None else p.double() if isinstance(p, Tensor) else p.astype(np.float64) for p in (X, C))
        device, total = device_of(X), float(len(self.Y) if self.weights is None else self.weights.sum())
        K = KernelMatrix(kernel, X, C, memory_budget=memory_budget, cache=False)
        Y = torch.from_numpy(np.ascontiguousarray(self.Y)).to(device, K.dtype)
        w = None if self.weights is None else torch.from_numpy(self.weights)[:, None].to(device, K.dtype)
        return LeastSquares(K, Y, noise / total, w, floor=self.floor)


def learn(
    kernels: Sequence[Kernel],
    data: Data,
    settings: Tuning | PenaltyPath,
    *,
    noise: float | None = None,
    fixed_penalty: bool = False,
    fixed_kernel: bool = False,
    n_centers: int,
    random: np.random.Generator,
    memory_budget: int,
    callback: Callable[..., bool] = lambda *_: False,
    journal: Journal | None = None,
) -> Learned | None:
    """Tune the penalty and the kernel, the best of several if there are several; None if there are too few rows.

    Parameters
    ----------
    kernels : sequence of Kernel
        Where to start.
    data : Data
    settings : Tuning or PenaltyPath
    noise : float, optional
        The penalty times the sum of the weights to start from.
    fixed_penalty, fixed_kernel : bool
        What is left as it is.
    n_centers : int
        How many centres, if they are tuned.
    callback : callable (Step) -> bool, optional
    journal : Journal, optional
        Of evaluations, those that a run cut short has made and those to come; a grid has none.
    """
    start = NOISE if noise is None else max(noise, LEAST_NOISE)
    few = data.part(ROWS if settings.rows == "auto" else int(settings.rows), random)
    few = few.merged() if few.points.shape[0] <= MERGED else few
    if few.points.shape[0] < LEAST:
        return None

    def centers(count: int, of: Data) -> Points:
        return center_rules.select(
            "uniform", kernels[0], of.points, count, weights=of.weights, random=random, memory_budget=memory_budget
        )

    if isinstance(settings, PenaltyPath):
        C = centers(min(settings.n_centers, few.points.shape[0]), few)
        problem, grid = search(few.problem(kernels[0], C, start, memory_budget), settings, random, callback)
        return Learned(problem.K.kernel, problem.penalty * problem.total_weight, None, grid)
    deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
    count = _count(few.points.shape[0], settings)
    C = centers(count, few) if count < few.points.shape[0] else None
    objective = _objective(settings, full=C is None)
    run = Run(settings, objective, count * few.points.shape[0], fixed_penalty, fixed_kernel, callback, deadline)
    run = replace(run, journal=journal)
    each = _per_feature(few.points, settings)
    if sparse.issparse(few.points) and any(as_array(getattr(k, "length_scale", 1.0)).ndim for k in kernels):
        run = replace(run, fixed_kernel=True)  # nothing differentiates these
    if not fixed_kernel:
        kernels = [other for kernel in kernels for other in _variants(kernel, few.points, each)]

    def pose(kernel: Kernel, noise: float) -> LeastSquares:
        return few.problem(kernel, C, noise, memory_budget)

    fixed = replace(run, moves_centers=False)
    left_open = settings.objective == settings.rows == settings.n_centers == "auto"
    if left_open and C is not None:
        sample = _Sample(few, data.part(JUDGED_ROWS, random), centers, memory_budget)
        tuned, noise = _wide_and_deep(kernels, sample, start, fixed, each)
    else:
        tuned = _best([pose(kernel, start) for kernel in kernels], fixed, each)
        noise = noise_of(tuned.problem)
    if settings.centers:  # last, from length scales that suit the data: from others they may be led astray
        C = centers(min(n_centers, few.points.shape[0]), few)
        run = replace(run, objective=_objective(settings, full=False), entries=C.shape[0] * few.points.shape[0])
        tuned = run(pose(tuned.problem.K.kernel, noise), settings.steps, per_feature=each)
    if settings.feature_map:
        many = data.part(MAP_ROWS, random)
        C = centers(min(MAP_CENTERS, many.points.shape[0]), many)
        tuned = _learn_map(tuned, run, lambda kernel, noise: many.problem(kernel, C, noise, memory_budget))
    best = tuned.problem
    if settings.centers:
        return Learned(best.K.kernel, noise_of(best), best.K.C, tuned.trace)
    kernel = best.K.kernel if fixed_kernel else _rounded_kernel(best.K.kernel)
    return Learned(kernel, _rounded(noise_of(best) if settings.feature_map else noise), None, tuned.trace)


def noise_of(problem: LeastSquares) -> float:
    """The penalty times the sum of the weights, which means the same whatever part of the rows there is."""
    return problem.penalty * problem.total_weight


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


class _Sample(NamedTuple):
    """Rows to tune on, more rows to judge by, and how centres are chosen among them."""

    few: Data
    many: Data
    centers: Callable[[int, Data], Points]
    memory_budget: int

    def judge(self, tuned: Tuned, *, fixed_penalty: bool) -> tuple[float, float]:
        """The least cross-validated error of its kernel, and the noise that has it.

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
        return float(errors[best]), float(noises[best])


def _wide_and_deep(
    kernels: Sequence[Kernel], sample: _Sample, noise: float, run: Run, per_feature: bool
) -> tuple[Tuned, float]:
    """Tune on many rows with few centres, then, from there, on few rows that are all centres; keep the better.

    The first sees through noise, the second sees detail that few centres cannot follow. Which of them a model with many
    centres needs is left to cross-validation on more rows than either has.
    """
    random = np.random.default_rng(0)
    wide, deep = sample.few.part(WIDE_ROWS, random), sample.few.part(DEEP_ROWS, random)
    C, budget = sample.centers(WIDE_CENTERS, wide), sample.memory_budget
    judge = partial(sample.judge, fixed_penalty=run.fixed_penalty)
    problems = [wide.problem(kernel, C, noise, budget) for kernel in kernels]
    first = _best(problems, replace(run, objective=GCV(), entries=WIDE_ROWS * WIDE_CENTERS), per_feature, judge)
    if run.fixed_kernel:
        return first, judge(first)[1]
    start = deep.problem(first.problem.K.kernel, None, noise_of(first.problem), budget)
    second = replace(run, objective=LeaveOneOut(), entries=DEEP_ROWS**2)(start, DEEP_STEPS, per_feature=per_feature)
    (_, noise), best = min(((judge(tuned), tuned) for tuned in (first, second)), key=lambda pair: pair[0])
    return best, noise


def _best(
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


def _learn_map(best: Tuned, run: Run, pose: Callable[[Kernel, float], LeastSquares]) -> Tuned:
    """Fit, map the inputs by how the fitted function changes with them, fit again; as long as the objective falls."""
    kernel = best.problem.K.kernel
    if not isinstance(kernel, RadialKernel) or sparse.issparse(best.problem.K.X):
        raise ValueError(f"tune: a feature map needs a kernel of the distance and dense points, got {kernel!r}")
    scales = np.broadcast_to(as_array(kernel.length_scale), best.problem.K.X.shape[1])
    for _ in range(run.settings.rounds):
        fitted = pose(best.problem.K.kernel, noise_of(best.problem))
        try:
            tuned = run(best.problem.at(kernel=improve(fitted, scales)), MAP_STEPS, per_feature=False, free=False)
        except FAILURES:  # there is no map, or the objective has no value with it
            break
        if min(tuned.trace.values) >= min(best.trace.values):
            break
        tuned.trace.steps[:0] = best.trace.steps
        best = tuned
    return best


def _objective(settings: Tuning, *, full: bool) -> Objective:
    wish = settings.objective
    if isinstance(wish, Objective):
        return wish
    if wish != "auto":
        return OBJECTIVES[wish]
    return SGPR(amplitude=True) if full else GCV()


def _count(rows: int, settings: Tuning) -> int:
    if settings.n_centers != "auto":
        return min(rows, int(settings.n_centers))
    return rows if rows <= ALL_CENTERS else max(ALL_CENTERS // 2, rows // ROWS_PER_CENTER)


def _per_feature(X: Points, settings: Tuning) -> bool:
    if sparse.issparse(X):
        return False
    enough = bool(X.shape[1] <= X.shape[0] / ROWS_PER_SCALE)
    return enough if settings.per_feature == "auto" else bool(settings.per_feature)


def _variants(kernel: Kernel, X: Points, each: bool) -> list[Kernel]:
    """Where to start from: one length scale per feature if each is tuned, else also one for all.

    Features of little spread are magnified by scales of their own; where those are not tuned, as in images, that may
    be wrong.
    """
    if not isinstance(kernel, RadialKernel) or sparse.issparse(X):
        return [kernel]
    scale = as_array(kernel.length_scale)
    if each:
        full = np.broadcast_to(scale, X.shape[1])
        return [kernel.with_parameters({"length_scale": full.tolist()})]
    if scale.ndim == 0 or X.shape[1] < MANY_FEATURES:
        return [kernel]
    spread = to_tensor(X).double().std(0, correction=0).cpu().numpy()
    common = float(np.median(scale[spread > 0] / spread[spread > 0]) * np.sqrt(np.square(spread).mean()))
    return [kernel, kernel.with_parameters({"length_scale": common})]


def _rounded(value: Any) -> Any:
    return [_rounded(v) for v in value] if isinstance(value, tuple | list) else float(f"{float(value):.{DIGITS - 1}e}")


def _rounded_kernel(kernel: Kernel) -> Kernel:
    positive = {n: v for n, v in kernel.parameters().items() if n.rpartition(".")[2] in POSITIVE}
    return kernel.with_parameters({name: _rounded(value) for name, value in positive.items()})
