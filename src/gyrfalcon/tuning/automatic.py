"""Tuning for an estimator: on a part of the rows, from starting points that fit the data, whatever they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from .objectives import GCV, OBJECTIVES, SGPR, Method, Objective
from .optimizers import FAILURES
from .parameters import POSITIVE, as_array
from .path import Grid, PenaltyPath, search
from .settings import Tuning
from .stochastic import Stochastic
from .trace import Step, Trace
from .tuner import Tuned, tune

Array = np.ndarray[Any, Any]

ROWS = 3000
LEAST = 5  # different rows that tuning needs
ALL_CENTERS = 500  # rows up to which each is a centre
ROWS_PER_CENTER = 10
ROWS_PER_SCALE = 30  # fewer, and length scales of single features fit the noise
MERGED = 5000  # rows that are searched for repetitions
EXACT_ENTRIES = 3e7  # of K, beyond which traces are estimated
MANY_FEATURES = 50  # as pixels are
SCREENING = 10  # steps with each of several kernels, before the best goes on alone
NOISE = 0.05  # where the search starts, over the sum of the weights; in the middle of what is found on real data
LEAST_NOISE = 1e-7  # below, rounding decides
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

    def problem(self, kernel: Kernel, C: Points, noise: float, memory_budget: int) -> LeastSquares:
        X = self.points
        if X.shape[0] * C.shape[0] <= EXACT_ENTRIES:  # more are left in their type, which stochastic evaluation can do
            X, C = (p.double() if isinstance(p, Tensor) else p.astype(np.float64) for p in (X, C))
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
    C = centers(_count(few.points.shape[0], settings), few)
    run = Run(settings, C.shape[0], few.points.shape[0], fixed_penalty, fixed_kernel, callback, deadline)
    each = _per_feature(few.points, settings)
    if sparse.issparse(few.points) and any(as_array(getattr(k, "length_scale", 1.0)).ndim for k in kernels):
        run = replace(run, fixed_kernel=True)  # nothing differentiates these
    if not fixed_kernel:
        kernels = [other for kernel in kernels for other in _variants(kernel, few.points, each)]
    candidates = [few.problem(kernel, C, start, memory_budget) for kernel in kernels]
    tuned = _best(candidates, replace(run, moves_centers=False), each)
    if settings.centers:  # last, from length scales that suit the data: from others they may be led astray
        C = centers(min(n_centers, few.points.shape[0]), few)
        run = replace(run, centers=C.shape[0])
        found = few.problem(
            tuned.problem.K.kernel, C, tuned.problem.penalty * tuned.problem.total_weight, memory_budget
        )
        tuned = run(found, settings.steps, per_feature=each)
    if settings.feature_map:
        many = data.part(MAP_ROWS, random)
        C = centers(min(MAP_CENTERS, many.points.shape[0]), many)
        tuned = _learn_map(tuned, run, lambda kernel, noise: many.problem(kernel, C, noise, memory_budget))
    best = tuned.problem
    noise, kernel = best.penalty * best.total_weight, best.K.kernel
    if not settings.centers:
        noise, kernel = _rounded(noise), kernel if fixed_kernel else _rounded_kernel(kernel)
    return Learned(kernel, noise, best.K.C if settings.centers else None, tuned.trace)


@dataclass(frozen=True)
class Run:
    """The settings of a run of `tune`."""

    settings: Tuning
    centers: int
    rows: int
    fixed_penalty: bool
    fixed_kernel: bool
    callback: Callable[[Step], bool]
    deadline: float | None  # on the monotonic clock, for all runs together
    moves_centers: bool = True

    @property
    def objective(self) -> Objective:
        wish = self.settings.objective
        if isinstance(wish, Objective):
            return wish
        if wish != "auto":
            return OBJECTIVES[wish]
        return SGPR(amplitude=True) if self.centers == self.rows else GCV()

    @property
    def method(self) -> Method:
        wish = self.settings.method
        small = self.rows * self.centers <= EXACT_ENTRIES
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
        )


def _best(candidates: list[LeastSquares], run: Run, per_feature: bool) -> Tuned:
    steps = run.settings.steps
    if len(candidates) == 1:
        return run(candidates[0], steps, per_feature=per_feature)
    screened = [(problem, run(problem, min(SCREENING, steps), per_feature=per_feature)) for problem in candidates]
    problem, tuned = min(screened, key=lambda pair: min(pair[1].trace.values))
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
        fitted = pose(best.problem.K.kernel, best.problem.penalty * best.problem.total_weight)
        try:
            tuned = run(best.problem.at(kernel=improve(fitted, scales)), MAP_STEPS, per_feature=False, free=False)
        except FAILURES:  # there is no map, or the objective has no value with it
            break
        if min(tuned.trace.values) >= min(best.trace.values):
            break
        tuned.trace.steps[:0] = best.trace.steps
        best = tuned
    return best


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
