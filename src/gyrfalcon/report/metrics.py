"""Test metrics and their percentile bootstrap intervals over the test rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .evidence import Evidence
from .text import number, share

Array = np.ndarray[Any, Any]
Statistic = Callable[[Array], Array]  # from the weights of the rows to some metrics

RESAMPLES = 500
MOST_ROWS = 20_000  # that are resampled; of more rows, the interval of so many is narrowed by the root of the share
SMALLEST = 1e-15  # probability that a logarithm is taken of


@dataclass(frozen=True)
class Metric:
    """A value, the ends of its 95 % interval (NaN if there is none), and the value of a baseline without features."""

    name: str
    value: float
    low: float
    high: float
    naive: float
    percent: bool = field(default=False, kw_only=True)

    def shown(self, value: float) -> str:
        if self.percent:
            return share(value)
        return number(round(value, 3) if self.name == "R²" and math.isfinite(value) else value, 3)

    @property
    def interval(self) -> str:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "too few rows for an interval"
        return f"{self.shown(self.low)} to {self.shown(self.high)}"


def bootstrap(statistic: Statistic, n: int, seed: int = 0) -> tuple[Array, Array]:
    """Ends of the 95 % intervals of some metrics of n rows; NaN where resamples hardly ever have the metric.

    >>> import numpy as np
    >>> values = np.random.default_rng(0).normal(size=400)
    >>> low, high = bootstrap(lambda w: np.array([w @ values / w.sum()]), 400)
    >>> bool(high[0] - low[0] < 2.3 * 1.96 / 20), bool(low[0] < values.mean() < high[0])
    (True, True)
    """
    random = np.random.default_rng(seed)
    chosen = np.arange(n) if n <= MOST_ROWS else random.choice(n, MOST_ROWS, replace=False)
    drawn = np.empty((RESAMPLES, len(statistic(np.ones(n)))))
    for place in range(RESAMPLES):
        counts = np.bincount(random.integers(len(chosen), size=len(chosen)), minlength=len(chosen))
        weights = np.zeros(n)
        weights[chosen] = counts
        drawn[place] = statistic(weights)
    drawn[:, np.isfinite(drawn).mean(0) < 0.9] = np.nan
    drawn[~np.isfinite(drawn)] = np.nan
    low, high = np.full((2, drawn.shape[1]), np.nan)
    known = ~np.isnan(drawn).all(0)
    if n > 2 and known.any():
        low[known], high[known] = np.nanquantile(drawn[:, known], [0.025, 0.975], axis=0)
    if n > MOST_ROWS:
        middle, full = np.nanmean(np.where(known, drawn, 0.0), axis=0), statistic(np.ones(n))
        shrink = math.sqrt(MOST_ROWS / n)
        low, high = full + shrink * (low - middle), full + shrink * (high - middle)
    return low, high


def measure(evidence: Evidence) -> list[Metric]:
    """The metrics of the task, the most important first. With several outputs, they are those of the first one."""
    if evidence.probabilities is not None:
        return _classification(evidence, evidence.probabilities)
    return by_output(evidence)[0]


def by_output(evidence: Evidence) -> list[list[Metric]]:
    """R², RMSE and MAE of each output of a regression."""
    truth, gaps = evidence.truth, evidence.predicted - evidence.truth
    unit = np.maximum(np.abs(truth).max(0), np.abs(gaps).max(0))
    unit = np.where(unit > 0, unit, 1.0)  # so that squares do not overflow
    y, e = truth / unit, gaps / unit
    columns = np.hstack([y, y**2, e**2, np.abs(e)])

    def statistic(weights: Array) -> Array:
        total, squares, errors, distances = np.split(weights @ columns / weights.sum(), 4)
        spread = squares - total**2
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = np.where(spread > 1e-13 * squares, 1 - errors / spread, np.nan)
        return np.concatenate([explained, np.sqrt(errors) * unit, distances * unit])

    values = statistic(np.ones(len(y)))
    low, high = bootstrap(statistic, len(y))
    guess = truth.mean(0) if evidence.y_train is None else evidence.y_train.reshape(-1, truth.shape[1]).mean(0)
    away = (truth - guess) / unit
    naive = np.concatenate([np.zeros(len(unit)), np.sqrt((away**2).mean(0)) * unit, np.abs(away).mean(0) * unit])
    naive[: len(unit)] = np.where(
        np.isfinite(values[: len(unit)]), 1 - (away**2).mean(0) / np.maximum(y.var(0), 1e-300), np.nan
    )
    numbers = np.stack([values, low, high, naive]).reshape(4, 3, len(unit))
    return [
        [Metric(name, *map(float, numbers[:, kind, place])) for kind, name in enumerate(("R²", "RMSE", "MAE"))]
        for place in range(len(unit))
    ]


def _classification(evidence: Evidence, probabilities: Array) -> list[Metric]:
    truth, count = evidence.truth, len(evidence.outputs)
    right = (evidence.predicted == truth).astype(float)
    said = probabilities[np.arange(len(truth)), truth]
    losses = -np.log(np.maximum(said, SMALLEST))
    squares = ((probabilities - np.eye(count)[truth]) ** 2).sum(1)
    ranked = probabilities[:, evidence.positive], truth == evidence.positive
    ranks = (_area(*ranked), _precision(*ranked)) if count == 2 else ()

    def statistic(weights: Array) -> Array:
        total = weights.sum()
        seen, hits = (np.bincount(truth, values, count) for values in (weights, weights * right))
        recall = (hits[seen > 0] / seen[seen > 0]).mean()
        values = [weights @ right / total, recall, weights @ losses / total, weights @ squares / total]
        return np.array([*values, *(rank(weights) for rank in ranks)])

    values = statistic(np.ones(len(truth)))
    low, high = bootstrap(statistic, len(truth))
    known = truth if evidence.y_train is None else _places(evidence)
    shares = np.bincount(known, minlength=count) / max(1, len(known))
    common = int(shares.argmax())
    naive = [
        float((truth == common).mean()),
        1 / max(1, len(np.unique(truth))),
        float(-np.log(np.maximum(shares[truth], SMALLEST)).mean()),
        float(((shares - np.eye(count)[truth]) ** 2).sum(1).mean()),
        0.5,
        float((truth == evidence.positive).mean()),
    ]
    names = ("Accuracy", "Balanced accuracy", "Log loss", "Brier score", "ROC AUC", "Average precision")
    return [
        Metric(name, float(value), float(a), float(b), guess, percent=name.endswith("ccuracy"))
        for name, value, a, b, guess in zip(names, values, low, high, naive, strict=False)
    ]


def _places(evidence: Evidence) -> Array:
    """The class numbers of the training rows that belong to a known class."""
    places = {label: place for place, label in enumerate(evidence.outputs)}
    assert evidence.y_train is not None
    found = [places.get(str(label), -1) for label in evidence.y_train.tolist()]
    return np.array([place for place in found if place >= 0], dtype=int)


def _area(scores: Array, positive: Array) -> Callable[[Array], float]:
    """The area under the ROC curve as a function of weights: how often a positive row outranks a negative one."""
    groups = np.unique(scores, return_inverse=True)[1]

    def area(weights: Array) -> float:
        ups, downs = (np.bincount(groups, weights * part, groups.max() + 1) for part in (positive, ~positive))
        pairs = ups.sum() * downs.sum()
        return float(ups @ (np.cumsum(downs) - downs / 2) / pairs) if pairs > 0 else math.nan

    return area


def _precision(scores: Array, positive: Array) -> Callable[[Array], float]:
    """The average precision as a function of weights: Σ precision · growth of recall, from the highest score down."""
    groups = np.unique(-scores, return_inverse=True)[1]

    def precision(weights: Array) -> float:
        ups, every = (np.bincount(groups, part, groups.max() + 1) for part in (weights * positive, weights))
        seen, found = np.cumsum(every), np.cumsum(ups)
        total = float(found[-1])
        return float(np.sum(ups * found / np.maximum(seen, 1e-300)) / total) if total > 0 else math.nan

    return precision
