"""Which map of the targets a fit should take: none, one that is named, or what errs least on rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gyrfalcon import progress
from gyrfalcon.arrays import AnyPoints, Array
from gyrfalcon.kernels import Kernel
from gyrfalcon.losses import Squared
from gyrfalcon.solvers import as_solver
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.trace import Candidate, Stage

from .calibration import at_least_one
from .left_out import leave_out
from .target_transform import TargetTransform
from .targets import RegressionTargets

if TYPE_CHECKING:
    from .base import KernelEstimator

NAMES = ("log", "arsinh")
SKEWED = 1.0  # the skewness from which on maps are tried: that of an exponential distribution is two
LEAST_ROWS = 100  # that are left out to decide
ROWS = 800  # at most
LIGHT_END = 0.01  # the share of targets that are below the origin of a map
WIDTHS = (1.0, 0.3, 0.1)  # scales that are tried, as parts of the mean distance from the origin
NAMED_WIDTH = 0.3
FACTORS = (1.0, 0.1, 0.3, 3.0, 10.0)  # of the noise that suits the targets as they are
GAIN, CERTAIN = 0.005, 0.5  # part of the squared error, and of the gain's standard error, that a map has to gain
LEAST_RESIDUALS = 8  # fewer, of fits to so few rows, tell how little there is to learn from, and no mean
LARGEST, SMALLEST = 1e100, 1e-100  # of targets: third powers do not overflow
WHY = (
    f"the lowest error, with the kernel that suits y as it is; a transform has to lower it by {GAIN:.1%} and by "
    f"{CERTAIN:g} of the standard error of that"
)
LEARNING_RATE = 0.5  # a prediction's variance falls by this power of the number of rows

Column = tuple[int, TargetTransform | None]
"""The place of an output, and a way to map it."""


class Trial(NamedTuple):
    """A map for each output, or nothing if all stay as they are, and a record of each output that was tried."""

    transforms: tuple[TargetTransform | None, ...]
    stages: list[Stage]


def check_target_transform(estimator: KernelEstimator) -> str | None:
    """What `target_transform` asks for, once it is known to go with the other parameters; None if nothing."""
    wish = estimator.target_transform
    if wish is None:
        return None
    if not isinstance(wish, str) or wish not in ("auto", *NAMES):
        raise ValueError(f"target_transform must be 'auto', None, 'log' or 'arsinh', got {wish!r}")
    solver = None if isinstance(estimator.solver, str) and estimator.solver == "auto" else as_solver(estimator.solver)
    no_penalty = "predictions on the scale of y need rows that are left out, and these a penalty"
    refusals = {
        "loss": (
            estimator.loss != "squared" and not isinstance(estimator.loss, Squared),
            "only means are brought back to the scale of y, which the squared loss estimates",
        ),
        "solver": (solver is not None and not solver.traits.needs_penalty, no_penalty),
        "penalty": (estimator.penalty == 0, no_penalty),
    }
    if wish == "auto":
        usual = not estimator.updatable and not any(refused for refused, _ in refusals.values())
        return "auto" if usual else None
    for name, (refused, reason) in refusals.items():
        if refused:
            raise ValueError(
                f"target_transform={wish!r} does not go with {name}={getattr(estimator, name)!r}: {reason}. Leave "
                "out one of the two"
            )
    return wish


def check_kept(estimator: KernelEstimator, transforms: Sequence[TargetTransform | None]) -> None:
    """Refuse to go on from a fit with these transforms if the parameters now ask for others."""
    wish, kept = check_target_transform(estimator), {each and each.name for each in transforms or (None,)}
    if wish != "auto" and kept != {wish}:
        raise ValueError(
            f"target_transform={estimator.target_transform!r}: warm_start=True keeps the transform of the last fit, "
            f"target_transform_={estimator.target_transform_!r}, which does not go with the parameters now: choose "
            "warm_start=False"
        )


def named_transforms(name: str | None, y: Array, weights: Array | None) -> tuple[TargetTransform, ...]:
    """The map of each output that a name asks for; none for "auto", which decides later."""
    if name is None or name == "auto":
        return ()
    Y = y.reshape(len(y), -1)
    if name == "log":
        unscaled = TargetTransform("log")
        check_positive((unscaled,) * Y.shape[1], y, weights)
        middles = np.average(unscaled.forward(Y), axis=0, weights=weights)
        return tuple(TargetTransform("log", scale=float(middle)) for middle in np.exp(middles))
    return tuple(_arsinh(column, weights, NAMED_WIDTH) for column in Y.T)


def check_positive(transforms: Sequence[TargetTransform | None], y: Array, weights: Array | None) -> None:
    """Refuse targets that have no logarithm where one is taken of them."""
    Y = y.reshape(len(y), -1) if weights is None else y.reshape(len(y), -1)[weights > 0]
    for transform, column in zip(transforms, Y.T, strict=False):
        if transform is not None and transform.name == "log" and column.min(initial=1.0) <= 0:
            raise ValueError(
                f"target_transform='log' needs positive targets, but y holds {column.min():g}: choose 'arsinh', which "
                "takes any, or None"
            )


def try_transforms(raw: Array, data: Data, kernel: Kernel, noise: float, *, intercept: bool, open_noise: bool) -> Trial:
    """Leave rows out of fits to targets as they are and as maps make them; take what errs least on the scale of y.

    Parameters
    ----------
    raw : array of shape (n, t)
        The targets of the rows of `data`, on their scale.
    data : Data
        Rows in memory.
    kernel, noise
        As tuning has found them for the targets as they are: a map has to be worth more than another kernel.
    intercept : bool
    open_noise : bool
        Whether the noise was left to tuning.
    """
    columns = [(place, one) for place, y in enumerate(raw.T) for one in _suitable(y, data.weights)]
    if not columns:
        return Trial((), [])
    progress.stage("trying transforms of the targets")
    factors = FACTORS if open_noise else (1.0,)
    found = _errors(columns, raw, data, kernel, [noise * factor for factor in factors], intercept=intercept)
    if found is None:
        return Trial((), [])
    errors, weights = found
    chosen: list[TargetTransform | None] = [None] * raw.shape[1]
    stages = []
    for output in dict.fromkeys(place for place, _ in columns):
        mine = [j for j, (place, _) in enumerate(columns) if place == output]
        best = _best(errors[mine], weights)
        chosen[output] = columns[mine[best]][1]
        relative = np.average(errors[mine], axis=1, weights=weights)
        tried = [
            Candidate("y" if columns[j][1] is None else str(columns[j][1]), noise, float(error))
            for j, error in zip(mine, relative, strict=True)
        ]
        name = "transform of y" + (f", output {output + 1} of {raw.shape[1]}" if raw.shape[1] > 1 else "")
        criterion = f"squared error of y on {len(weights):,} rows left out, of that of a constant"
        stages.append(Stage(name, criterion, tried, best, WHY))
    return Trial(tuple(chosen) if any(chosen) else (), stages)


def with_residuals(
    targets: RegressionTargets,
    data: Data,
    kernel: Kernel,
    centers: AnyPoints | None,
    noise: float,
    total_weight: float,
    intercept: bool,
) -> RegressionTargets:
    """Targets whose maps know the residuals of a fit, from some of the rows that are left out in turn.

    Those of very few rows are not asked: then predictions are medians.

    Parameters
    ----------
    targets : RegressionTargets
    data : Data
        Rows in memory, as `targets` encodes them.
    kernel : Kernel
    centers : array, tensor or CSR of shape (m, d), optional
        None if every row is one.
    noise : float
        The penalty times the total weight of the rows of the fit.
    intercept : bool
    """
    found = leave_out(kernel, centers, data.points, data.Y.__getitem__, data.weights, noise=noise, intercept=intercept)
    if found is None or len(found.rows) < LEAST_RESIDUALS:
        return targets
    # A fit to more rows than these varies less; the noise stays as it is.
    own, share = found.deviations**2 - 1, min(1.0, float(found.weights.sum()) / total_weight)
    shrunk = np.sqrt((1 + own * share**LEARNING_RATE) / (1 + own))
    residuals = (found.targets - found.outputs) * shrunk[:, None] * targets.scale
    transforms = [
        None if one is None else one.with_residuals(column, found.weights)
        for one, column in zip(targets.transforms, residuals.T, strict=True)
    ]
    return replace(targets, transforms=tuple(transforms))


def _suitable(y: Array, weights: Array | None) -> list[TargetTransform | None]:
    """None, for targets as they are, and maps to try instead; nothing if the targets are not skewed."""
    rows = len(y) if weights is None else np.count_nonzero(weights)
    if rows < LEAST_ROWS or not abs(_skewness(y, weights)) >= SKEWED:
        return []
    return [None, *(_arsinh(y, weights, width) for width in WIDTHS)]


def _skewness(y: Array, weights: Array | None) -> float:
    """Zero if there is none that can be computed."""
    if weights is not None:  # whatever the targets of other rows are
        y, weights = y[weights > 0], weights[weights > 0]
    if not SMALLEST < np.abs(y).max() < LARGEST:
        return 0.0
    away = y - np.average(y, weights=weights)
    deviation = np.sqrt(np.average(away**2, weights=weights))
    return float(np.average((away / deviation) ** 3, weights=weights)) if deviation > 0 else 0.0


def _arsinh(y: Array, weights: Array | None, width: float) -> TargetTransform:
    """A map that begins near the end of the targets that has no tail, so that it turns over with them."""
    tail = np.sign(_skewness(y, weights)) or 1.0
    order = np.argsort(tail * y)
    mass = np.cumsum(np.ones(len(y)) if weights is None else weights[order])
    origin = y[order[np.searchsorted(mass, LIGHT_END * mass[-1])]]
    scale = width * float(np.average(np.abs(y - origin), weights=weights))
    return TargetTransform("arsinh", float(origin), scale if scale > 0 else 1.0)


def _errors(
    columns: Sequence[Column], raw: Array, data: Data, kernel: Kernel, noises: Sequence[float], *, intercept: bool
) -> tuple[Array, Array] | None:
    """Squared errors of y by column and row left out, over the variance of the output; and the weights of the rows.

    Each column has the noise that suits it best. None if there are too few rows.
    """
    Z = np.stack([raw[:, place] if one is None else one.forward(raw[:, place]) for place, one in columns], 1)
    coded = RegressionTargets.of(Z, data.weights, Squared(), centered=intercept)
    best: Array | None = None
    for noise in noises:
        found = leave_out(
            *(kernel, None, data.points),
            lambda rows: coded.encode(Z[rows]),
            data.weights,
            noise=noise,
            intercept=intercept,
            count=ROWS,
        )
        if found is None or len(found.rows) < LEAST_ROWS:
            return None
        weights = at_least_one(found.weights)
        outputs, truth = (part * coded.scale + coded.location for part in (found.outputs, found.targets))
        y = raw[found.rows][:, [place for place, _ in columns]]
        means = np.empty_like(outputs)
        for j, (_, one) in enumerate(columns):
            z, true = outputs[:, j], truth[:, j]
            means[:, j] = z if one is None else one.reaching(true).with_residuals(true - z, weights).mean(z)
        spread = np.average((y - np.average(y, 0, weights)) ** 2, 0, weights)
        squares = ((y - means) ** 2 / np.where(spread > 0, spread, np.inf)).T  # rows that are alike decide nothing
        if best is not None:
            lower = np.average(squares, 1, weights) < np.average(best, 1, weights)
            squares = np.where(lower[:, None], squares, best)
        best = squares
    return None if best is None else (best, weights)


def _best(errors: Array, weights: Array) -> int:
    """The lowest of those that gain enough on the first; the first if none does."""
    total, first = weights.sum(), float(np.average(errors[0], weights=weights))
    best, lowest = 0, (1 - GAIN) * first
    for place, gains in enumerate(errors[0] - errors):
        gain = float(np.average(gains, weights=weights))
        uncertainty = np.sqrt(weights @ (gains - gain) ** 2) / total
        if first - gain < lowest and gain > CERTAIN * uncertainty:
            best, lowest = place, first - gain
    return best
