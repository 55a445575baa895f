"""The section about learning: the learning curve, the trace of tuning and the convergence of the solver."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from gyrfalcon.progress import Bar
from gyrfalcon.tuning import Grid, Trace

from . import page
from .evidence import Evidence, plain, rows, rows_of
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import number, short

Array = np.ndarray[Any, Any]

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
LEAST_ROWS = 20
MOST_ROWS = 4000  # of a refit
MOST_TEST_ROWS = 4000
DRAWS = 3
MOST_SECONDS = 15.0  # after which no other refit begins


def learning(evidence: Evidence, seed: int = 0) -> Section | None:
    drawn = [part for part in (_curve(evidence, seed), *_tuning(evidence), *_convergence(evidence)) if part]
    words = "How the error depends on the number of rows, and how the model was fitted."
    if evidence.y_train is None:
        words = "How the model was fitted. For a learning curve, pass X_train and y_train."
    body = page.paragraph(words) + page.figures(drawn) + _decisions(evidence)
    return Section("Learning", body) if drawn else None


def _decisions(evidence: Evidence) -> str:
    """What automatic tuning compared, by which criterion, and what it chose."""
    trace = getattr(evidence.estimator, "tuning_", None)
    if not isinstance(trace, Trace) or not trace.stages:
        return ""
    rows_of_table = [
        [
            stage.name,
            stage.criterion,
            short(taken.kernel, 60),
            number(taken.penalty, 3),
            number(taken.value, 3),
            stage.reason,
        ]
        for stage in trace.stages
        for taken in [stage.candidates[stage.chosen]]
    ]
    heads = ("Decision", "Criterion", "Chosen", "Penalty", "Value", "Why")
    words = "What was compared and chosen, in this order: kernels, or what else a decision is about."
    words += " Penalties are in the units of the model."
    return page.paragraph(words) + page.table(heads, rows_of_table, words=(0, 1, 2, 5))


def _curve(evidence: Evidence, seed: int) -> str:
    if evidence.y_train is None:
        return ""
    n, classes = len(evidence.y_train), len(evidence.outputs) if evidence.classes else 0
    top = min(1.0, MOST_ROWS / n * 2)
    sizes = [size for size in (round(n * top * part) for part in SHARES) if size >= max(LEAST_ROWS, 2 * classes)]
    random = np.random.default_rng(seed)
    held = rows_of(evidence.X)
    test = np.sort(random.permutation(held)[:MOST_TEST_ROWS])
    X_test, y_test = rows(evidence.X, test), evidence.y[test]
    found: dict[int, list[tuple[float, float]]] = {}
    began = time.perf_counter()
    with Bar(
        "learning curve", verbose=bool(getattr(evidence.estimator, "verbose", True)), total=DRAWS * len(sizes)
    ) as bar:
        for size in [size for size in sizes for _ in range(DRAWS)]:
            if time.perf_counter() - began > MOST_SECONDS:
                break
            part = _draw(evidence, size, random)
            X, y = rows(evidence.X_train, part), evidence.y_train[part]
            model = _refit(evidence, X, y, n / size)
            found.setdefault(size, []).append((_error(evidence, model, X, y), _error(evidence, model, X_test, y_test)))
            bar.step()
    if not found:
        return ""
    final = _headline(evidence)
    sizes, means = list(found), np.array([np.mean(pairs, 0) for pairs in found.values()])
    low, high = ([end(test for _, test in pairs) for pairs in found.values()] for end in (min, max))
    plot = Plot(
        Scale.of([*sizes, n], log=True),
        Scale.of(means, low, high, [final, 0.0]),
        "training rows",
        _error_name(evidence),
    )
    plot.band(sizes, low, high)
    plot.line(sizes, means[:, 0], "other")
    plot.line([*sizes, n], [*means[:, 1], final])
    plot.dots([*sizes, n], [*means[:, 1], final], size=6)
    caption = (
        f"Refits on random parts of the training rows, up to {DRAWS} of each size, with the kernel and the noise level "
        f"of the model; the last point is the model itself, on {n:,} rows."
    )
    return page.figure(
        "Learning curve", plot.svg("error over training rows"), caption, {"test": "ours", "training": "other"}
    )


def _draw(evidence: Evidence, size: int, random: np.random.Generator) -> Array:
    """Random rows, with at least one of each class for classification."""
    assert evidence.y_train is not None
    order = random.permutation(len(evidence.y_train))
    if evidence.classes:
        first = np.unique(evidence.y_train[order], return_index=True)[1]
        order = np.concatenate([order[first], np.delete(order, first)])
    return order[:size]


def _refit(evidence: Evidence, X: Any, y: Array, fewer: float) -> Any:
    """The model fitted to some rows with the same kernel and noise; the penalty is the noise over the row count."""
    estimator = evidence.estimator
    if not hasattr(estimator, "kernel_"):  # linear in features, with a penalty on the sum of the losses
        again = clone(evidence.model)
        last = again if estimator is evidence.model else again[-1]
        if getattr(estimator, "features_", None) is not None:
            last.set_params(features=FrozenEstimator(estimator.features_))
        return again.fit(X, y)
    settings = {
        "kernel": estimator.kernel_, "length_scale": "auto", "penalty": estimator.penalty_ * fewer, "tune": None,
        "centers": "uniform", "n_centers": "auto", "verbose": False, "checkpoint": None, "warm_start": False,
        "random_state": 0,
    }  # fmt: skip
    model = clone(evidence.model)
    last = model if evidence.estimator is evidence.model else model[-1]
    last.set_params(**{name: value for name, value in settings.items() if name in last.get_params(deep=False)})
    return model.fit(X, y)


def _error(evidence: Evidence, model: Any, X: Any, y: Array) -> float:
    predicted = plain(model.predict(X))
    if evidence.classes:
        return float((predicted.astype(object) != y.astype(object)).mean())
    gaps = (predicted - y).reshape(len(y), -1)
    return float(np.sqrt(((gaps / _unit(evidence)) ** 2).mean(0)).mean())


def _headline(evidence: Evidence) -> float:
    """The error of the model on all test rows, which the numbers at the top of the page show too."""
    if evidence.classes:
        return float((evidence.predicted != evidence.truth).mean())
    gaps = evidence.predicted - evidence.truth
    return float(np.sqrt(((gaps / _unit(evidence)) ** 2).mean(0)).mean())


def _unit(evidence: Evidence) -> Array:
    """One for a single output; else the deviation of each, so that they can be averaged."""
    spread = evidence.truth.std(0)
    return np.ones(1) if evidence.truth.shape[1] == 1 else np.where(spread > 0, spread, 1.0)


def _error_name(evidence: Evidence) -> str:
    if evidence.classes:
        return "error rate, 1 − accuracy"
    return "RMSE" if len(evidence.outputs) == 1 else "RMSE in deviations, mean of outputs"


def _tuning(evidence: Evidence) -> list[str]:
    trace = getattr(evidence.estimator, "tuning_", None)
    if isinstance(trace, Trace) and len(trace.steps) > 1:
        return [_trace(trace)]
    return [_grid(trace)] if isinstance(trace, Grid) else []


def _trace(trace: Trace) -> str:
    values = np.array(trace.values)
    log = bool(values.min() > 0 and values.max() > 10 * values.min())
    plot = Plot(Scale(0, len(values) - 1), Scale.of(values, log=log), "step", trace.objective or "objective")
    plot.line(np.arange(len(values)), values)
    plot.dots([trace.best], [values[trace.best]], size=8)
    penalties = [trace.steps[place].penalty for place in (0, trace.best)]
    caption = (
        f"{len(values)} steps and {trace.evaluations} evaluations; the dot is what was kept. The penalty went from "
        f"{number(penalties[0], 2)} to {number(penalties[1], 2)}."
    )
    return page.figure("Tuning", plot.svg("objective over steps of tuning"), caption)


def _grid(grid: Grid) -> str:
    plot = Plot(Scale.of(grid.penalties, log=True), Scale.of(grid.errors, log=True), "penalty", "cross-validated error")
    row, best = grid.best
    for place, errors in enumerate(grid.errors):
        if place != row:
            plot.line(grid.penalties, errors, "soft")
    plot.line(grid.penalties, grid.errors[row])
    plot.dots([grid.penalties[best]], [grid.errors[row, best]], size=8)
    factor = number(grid.length_scales[row], 2)
    caption = f"The best of {len(grid.length_scales)} length scales is {factor} times the first guess."
    return page.figure(
        "Tuning", plot.svg("errors over penalties"), caption, {"kept": "ours", "other length scales": "soft"}
    )


def _convergence(evidence: Evidence) -> list[str]:
    record = getattr(evidence.estimator, "record_", None)
    if record is None or len(record.residuals) < 3:
        return []
    return [page.figure("Convergence", convergence(record.residuals), f"{record.solver}: {record.message}.")]


def convergence(residuals: Sequence[float]) -> str:
    """Relative residuals after each iteration."""
    plot = Plot(Scale(0, len(residuals) - 1), Scale.of(residuals, log=True), "iteration", "relative residual")
    plot.line(np.arange(len(residuals)), residuals)
    plot.dots([len(residuals) - 1], residuals[-1:], size=8)
    return plot.svg("residual over iterations")
