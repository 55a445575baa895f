"""Tuning for an estimator: on a part of the rows, from starting points that fit the data, whatever they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import AnyPoints, to_tensor
from gyrfalcon.kernels import Kernel, ProductLaplacian, RadialKernel
from gyrfalcon.solvers import LeastSquares

from . import recipe
from .feature_map import improve
from .journal import Journal
from .objectives import GCV, OBJECTIVES, SGPR, Objective
from .optimizers import FAILURES
from .parameters import as_array
from .path import Grid, PenaltyPath, search
from .rows import Data, noise_of
from .settings import Tuning
from .stages import LEAST_NOISE, Run, tune_best
from .trace import Trace
from .tuner import Tuned

Array = np.ndarray[Any, Any]

ROWS = 3000
LEAST = 5  # different rows that tuning needs
ALL_CENTERS = 500  # rows up to which each is a center
ROWS_PER_CENTER = 10
ROWS_PER_SCALE = 30  # fewer, and length scales of single features fit the noise
MOST_NUMBERS = 5_000_000  # in the rows that the recipe looks at
MANY_FEATURES = 50  # as pixels are
SHARED_UNIT = 4.0  # how much the ranges of most features may differ if they have one unit, as pixels do
NOISE = 0.05  # where the search starts, over the sum of the weights; in the middle of what is found on real data
DIGITS = 2  # of what was tuned that are kept: further ones are those of rounding and of the sample
MAP_ROWS, MAP_CENTERS, MAP_STEPS = 20_000, 1000, 8  # each round: rows and centers of the fit, steps of tuning


@dataclass(frozen=True)
class Learned:
    """The kernel, the noise (the penalty times the sum of the weights), centers if they were tuned, and the trace."""

    kernel: Kernel
    noise: float
    centers: AnyPoints | None
    trace: Trace | Grid | None


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
        How many centers, if they are tuned.
    callback : callable (Step) -> bool, optional
    journal : Journal, optional
        Of evaluations, those that a run cut short has made and those to come; a grid has none.
    """
    start = NOISE if noise is None else max(noise, LEAST_NOISE)
    few = data.part(_most_rows(data.points, settings), random).merged()
    if few.points.shape[0] < LEAST:
        return None

    def centers(count: int, of: Data) -> AnyPoints:
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
    if settings.feature_map:
        kernels = [kernel for kernel in kernels if isinstance(kernel, RadialKernel)] or kernels
    if not fixed_kernel:
        kernels = [other for kernel in kernels for other in _variants(kernel, few.points)]

    def pose(kernel: Kernel, noise: float) -> LeastSquares:
        return few.problem(kernel, C, noise, memory_budget)

    if settings.objective == settings.n_centers == "auto" and not any(kernel.explicit for kernel in kernels):
        wish = None if settings.per_feature == "auto" else bool(settings.per_feature)
        tuned, noise = recipe.search(kernels, few, start, run, memory_budget, per_feature=wish)
    else:
        tuned = tune_best([pose(kernel, start) for kernel in kernels], replace(run, moves_centers=False), each)
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
    tuned.trace.stages = run.log
    if settings.centers:
        return Learned(best.K.kernel, noise_of(best), best.K.centers, tuned.trace)
    kernel = best.K.kernel if fixed_kernel else _rounded_kernel(best.K.kernel)
    return Learned(kernel, _rounded(noise_of(best) if settings.feature_map else noise), None, tuned.trace)


def _learn_map(best: Tuned, run: Run, pose: Callable[[Kernel, float], LeastSquares]) -> Tuned:
    """Fit, map the inputs by how the fitted function changes with them, fit again; as long as the objective falls."""
    kernel = best.problem.K.kernel
    if not isinstance(kernel, RadialKernel) or best.problem.K.sparse:
        raise ValueError(f"tune: a feature map needs a kernel of the distance and dense points, got {kernel!r}")
    scales = np.broadcast_to(as_array(kernel.length_scale), best.problem.K.n_features)
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


def _most_rows(points: AnyPoints, settings: Tuning | PenaltyPath) -> int:
    """How many rows are looked at."""
    if isinstance(settings, PenaltyPath) or settings.rows != "auto":
        return int(settings.rows)
    if settings.objective != "auto" or sparse.issparse(points):
        return ROWS
    return max(ROWS, min(settings.recipe.most_rows, MOST_NUMBERS // max(1, points.shape[1])))


def _count(rows: int, settings: Tuning) -> int:
    if settings.n_centers != "auto":
        return min(rows, int(settings.n_centers))
    return rows if rows <= ALL_CENTERS else max(ALL_CENTERS // 2, rows // ROWS_PER_CENTER)


def _per_feature(X: AnyPoints, settings: Tuning) -> bool:
    if sparse.issparse(X):
        return False
    enough = bool(X.shape[1] <= X.shape[0] / ROWS_PER_SCALE)
    return enough if settings.per_feature == "auto" else bool(settings.per_feature)


def _variants(kernel: Kernel, X: AnyPoints) -> list[Kernel]:
    """Where to start from: one length scale per feature and, where many features share a unit, also one for all.

    Features of little spread are magnified by scales of their own; in images that may be wrong.
    """
    if not isinstance(kernel, RadialKernel | ProductLaplacian) or sparse.issparse(X):
        return [kernel]
    scale = as_array(kernel.length_scale)
    each = kernel.with_parameters({"length_scale": np.broadcast_to(scale, X.shape[1]).tolist()})
    if scale.ndim == 0 or not share_unit(X):
        return [each]
    spread = to_tensor(X).double().std(0, correction=0).cpu().numpy()
    common = float(np.median(scale[spread > 0] / spread[spread > 0]) * np.sqrt(np.square(spread).mean()))
    return [each, kernel.with_parameters({"length_scale": common})]


def share_unit(X: AnyPoints) -> bool:
    """Whether there are many features, most of which have about the same range, as pixels do."""
    if X.shape[1] < MANY_FEATURES:
        return False
    values = to_tensor(X).double()
    span = (values.amax(0) - values.amin(0)).cpu().numpy()
    low, high = np.quantile(span[span > 0], (0.25, 0.9)) if (span > 0).any() else (0.0, 0.0)
    return bool(0 < high <= SHARED_UNIT * low)


def _rounded(value: Any) -> Any:
    return [_rounded(v) for v in value] if isinstance(value, tuple | list) else float(f"{float(value):.{DIGITS - 1}e}")


def _rounded_kernel(kernel: Kernel) -> Kernel:
    values, how = kernel.parameters(), kernel.tunable()
    return kernel.with_parameters({name: _rounded(values[name]) for name in how if how[name] == "logarithmic"})
