"""The section about features: their importance, and errors along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import page
from .classification import wilson
from .evidence import Evidence
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import short

Array = np.ndarray[Any, Any]

MOST_BARS = 20
MOST_PICTURES = 4
GROUPS = 10


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
    if evidence.classes:
        return f"How many more of 100 predictions are wrong {shuffled}."
    of = "" if len(evidence.outputs) == 1 else ", on average over the outputs,"
    return f"How much larger the RMSE{of} gets {shuffled}."


def _growth(evidence: Evidence, by: float) -> str:
    if evidence.classes:
        return f"{100 * by:+,.1f}".replace("-", "−")
    return f"{100 * by:+,.0f} %".replace("-", "−")


def _picture(evidence: Evidence, feature: int) -> str:
    values, name = evidence.column(feature), evidence.names[feature]
    if evidence.classes:
        return page.figure(short(name), _error_rates(values, evidence.truth != evidence.predicted, name), "")
    place = _worst(evidence)
    return page.figure(
        short(name), _residuals(values, evidence.truth[:, place] - evidence.predicted[:, place], name), ""
    )


def _worst(evidence: Evidence) -> int:
    spread = evidence.truth.std(0)
    return int(
        np.argmax(np.sqrt(((evidence.truth - evidence.predicted) ** 2).mean(0)) / np.where(spread > 0, spread, 1))
    )


def _residuals(values: Array, residuals: Array, name: str) -> str:
    low, high = np.quantile(residuals, [0.002, 0.998])
    plot = Plot(_inner(values), Scale.of([low, high, 0.0]), name, "actual − predicted", height=260)
    plot.cloud(values, residuals, "soft", most=0.5)
    plot.line([plot.x.low, plot.x.high], [0, 0], "soft", dashed=True)
    groups = _groups(values)
    means = np.array([residuals[group].mean() for group in groups])
    errors = np.array([1.96 * residuals[group].std() / np.sqrt(len(group)) for group in groups])
    middles = [np.median(values[group]) for group in groups]
    plot.band(middles, means - errors, means + errors)
    plot.line(middles, means)
    return plot.svg(f"residuals over {name}, with means of groups")


def _error_rates(values: Array, wrong: Array, name: str) -> str:
    groups = _groups(values)
    sizes = np.array([len(group) for group in groups])
    rates = np.array([wrong[group].mean() for group in groups])
    low, high = wilson(rates, sizes)
    middles = [np.median(values[group]) for group in groups]
    plot = Plot(_inner(values), Scale(0, 1.05 * max(0.02, float(high.max()))), name, "share that is wrong", height=260)
    plot.whiskers(middles, low, high, "soft")
    plot.line(middles, rates)
    plot.dots(middles, rates, size=6)
    return plot.svg(f"error rate over {name}")


def _inner(values: Array) -> Scale:
    """The range of the values without the outermost ones."""
    return Scale.of(np.quantile(values, [0.005, 0.995]) if len(values) > 400 else values)


def _groups(values: Array) -> list[Array]:
    """Groups of rows of about the same size, by value. Equal values stay together."""
    different, places = np.unique(values, return_inverse=True)
    if len(different) > GROUPS:
        count = int(np.clip(len(values) // 8, 1, GROUPS))
        edges = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)[1:-1]))
        places = np.searchsorted(edges, values, side="right")
    return [np.flatnonzero(places == place) for place in np.unique(places)]
