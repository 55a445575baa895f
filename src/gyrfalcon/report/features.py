"""The section about features: their importance, and errors along them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from . import page
from .classification import wilson
from .evidence import Evidence
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import number, share, short

Array = np.ndarray[Any, Any]

MOST_BARS = 20
MOST_PICTURES = 4
GROUPS = 10
MOST_CATEGORIES = 12


def features(evidence: Evidence) -> Section:
    if not evidence.importance:
        body = page.paragraph(f"How much each feature matters is not known: {evidence.without_importance}.", soft=True)
    else:
        shown = list(evidence.importance.items())[:MOST_BARS]
        words = _shuffling(evidence)
        if len(evidence.importance) > MOST_BARS:
            words += f" {len(evidence.importance) - MOST_BARS:,} more features matter less."
        body = page.paragraph(words) + page.bars([(name, max(0.0, by), _growth(evidence, by)) for name, by in shown])
    firsts: dict[str, int] = {}
    for place in evidence.by_importance:
        firsts.setdefault(evidence.columns[place], place)
    drawn = [_picture(evidence, place) for place in list(firsts.values())[:MOST_PICTURES]]
    title = "Errors along the features" if evidence.classes else "Residuals along the features"
    words = "If the line is not near zero, the model misses an effect of that feature."
    if evidence.classes:
        words = "The share of test rows that are wrong, by groups of equal size."
    elif len(evidence.outputs) > 1:
        words += f" Of {short(evidence.outputs[_worst(evidence)])}, the output that is predicted worst."
    return Section(
        "Features", f'{body}<h3 style="margin-top:2rem">{title}</h3>{page.paragraph(words)}{page.figures(drawn)}'
    )


def _shuffling(evidence: Evidence) -> str:
    shuffled = "when the values of one feature are shuffled over the test rows"
    if evidence.classes and hasattr(evidence.estimator, "predict_proba"):
        return f"How much larger the log loss gets {shuffled}."
    if evidence.classes:
        return f"How many more of 100 predictions are wrong {shuffled}."
    of = "" if len(evidence.outputs) == 1 else ", on average over the outputs,"
    return f"How much larger the RMSE{of} gets {shuffled}."


def _growth(evidence: Evidence, by: float) -> str:
    if evidence.classes:
        logarithms = hasattr(evidence.estimator, "predict_proba")
        return (f"{by:+,.3f}" if logarithms else f"{100 * by:+,.1f}").replace("-", "−")
    return f"{100 * by:+,.0f} %".replace("-", "−")


def _picture(evidence: Evidence, feature: int) -> str:
    name = evidence.names[feature]
    values: Array | None = evidence.of_table(evidence.columns[feature])
    if values is None:
        values = evidence.column(feature)
    else:
        name = evidence.columns[feature]
    place = 0 if evidence.classes else _worst(evidence)
    wrong = evidence.truth != evidence.predicted if evidence.classes else None
    residuals = None if evidence.classes else evidence.truth[:, place] - evidence.predicted[:, place]
    if values.dtype == object:
        return page.figure(short(name), *_by_category(values, wrong, residuals))
    kind = evidence.rules[name].kind if name in evidence.rules else "number"
    if wrong is not None:
        return page.figure(short(name), _error_rates(values, wrong, name, dates=kind == "date"), "")
    assert residuals is not None
    return page.figure(short(name), _residuals(values, residuals, name, dates=kind == "date"), "")


def _by_category(values: Array, wrong: Array | None, residuals: Array | None) -> tuple[str, str]:
    """Bars of the error in each category, the most frequent first, and a caption."""
    named, places, sizes = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES]
    left_out = len(named) - len(order)
    rest = f" {left_out:,} more are less frequent." if left_out else ""
    if wrong is not None:
        rates = np.bincount(places, wrong) / sizes
        rows = [(str(named[i]), float(rates[i]), f"{share(float(rates[i]))} of {sizes[i]:,}") for i in order]
        return page.bars(rows), f"The share of the rows that is wrong.{rest}"
    assert residuals is not None
    errors = np.sqrt(np.bincount(places, residuals**2) / sizes)
    means = np.bincount(places, residuals) / sizes
    rows = [
        (str(named[i]), float(errors[i]), f"{number(errors[i], 3)}, mean {number(means[i], 2)}, {sizes[i]:,} rows")
        for i in order
    ]
    return page.bars(rows), f"The RMSE in each category, and the mean of actual − predicted.{rest}"


def _worst(evidence: Evidence) -> int:
    spread = evidence.truth.std(0)
    return int(
        np.argmax(np.sqrt(((evidence.truth - evidence.predicted) ** 2).mean(0)) / np.where(spread > 0, spread, 1))
    )


def _residuals(values: Array, residuals: Array, name: str, *, dates: bool = False) -> str:
    low, high = np.quantile(residuals, [0.002, 0.998])
    plot = Plot(_inner(values, dates), Scale.of([low, high, 0.0]), name, "actual − predicted", height=260)
    plot.cloud(values, residuals, "soft", most=0.5)
    plot.line([plot.x.low, plot.x.high], [0, 0], "soft", dashed=True)
    groups = _groups(values)
    means = np.array([residuals[group].mean() for group in groups])
    errors = np.array([1.96 * residuals[group].std() / np.sqrt(len(group)) for group in groups])
    middles = [np.median(values[group]) for group in groups]
    plot.band(middles, means - errors, means + errors)
    plot.line(middles, means)
    return plot.svg(f"residuals over {name}, with means of groups")


def _error_rates(values: Array, wrong: Array, name: str, *, dates: bool = False) -> str:
    groups = _groups(values)
    sizes = np.array([len(group) for group in groups])
    rates = np.array([wrong[group].mean() for group in groups])
    low, high = wilson(rates, sizes)
    middles = [np.median(values[group]) for group in groups]
    top = Scale(0, 1.05 * max(0.02, float(high.max())))
    plot = Plot(_inner(values, dates), top, name, "share that is wrong", height=260)
    plot.whiskers(middles, low, high, "soft")
    plot.line(middles, rates)
    plot.dots(middles, rates, size=6)
    return plot.svg(f"error rate over {name}")


def _inner(values: Array, dates: bool = False) -> Scale:
    """The range of the values without the outermost ones; days since 1970 are shown as dates."""
    found = Scale.of(np.quantile(values, [0.005, 0.995]) if len(values) > 400 else values)
    return dataclasses.replace(found, dates=True) if dates else found


def _groups(values: Array) -> list[Array]:
    """Groups of rows of about the same size, by value. Equal values stay together."""
    different, places = np.unique(values, return_inverse=True)
    if len(different) > GROUPS:
        count = int(np.clip(len(values) // 8, 1, GROUPS))
        edges = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)[1:-1]))
        places = np.searchsorted(edges, values, side="right")
    return [np.flatnonzero(places == place) for place in np.unique(places)]
