"""Figures for regression: predicted against actual values, residuals, bands and their coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from . import page
from .evidence import Evidence
from .metrics import by_output
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import number, share, short

Array = np.ndarray[Any, Any]

MOST_OUTPUTS = 6  # with a picture of their own
MOST_SHOWN = 200  # rows of a band
LEVELS = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])


def predictions(evidence: Evidence) -> Section | None:
    if evidence.classes:
        return None
    metrics = by_output(evidence)
    order = np.argsort([-row[0].value if np.isfinite(row[0].value) else np.inf for row in metrics], kind="stable")
    several = len(order) > 1
    drawn = []
    for place in order[:MOST_OUTPUTS]:
        name = evidence.outputs[place]
        truth, predicted = evidence.truth[:, place], evidence.predicted[:, place]
        title = f"Predicted and actual: {short(name)}" if several else "Predicted and actual"
        drawn.append(
            page.figure(title, against(truth, predicted), f"{len(truth):,} test rows.", {"perfect": "soft dashed"})
        )
        if not several:
            drawn.append(page.figure("Residuals", histogram(truth - predicted), residual_words(truth - predicted)))
    body = page.paragraph("The predicted and the actual value of every test row.") + page.figures(drawn)
    if several:
        rows = [[evidence.outputs[i], *(m.shown(m.value) + f" ({m.interval})" for m in metrics[i])] for i in order[:50]]
        body += page.table(["output", "R²", "RMSE", "MAE"], rows)
        if len(order) > 50:
            body += page.paragraph(f"{len(order) - 50} more outputs are predicted less well.", soft=True)
    return Section("Predictions", body)


def against(truth: Array, predicted: Array) -> str:
    """Predicted over actual, with the diagonal of perfect predictions."""
    ends = Scale.of(truth, predicted)
    plot = Plot(ends, ends, "actual", "predicted", height=340)
    plot.cloud(truth, predicted)
    plot.line([ends.low, ends.high], [ends.low, ends.high], "soft", dashed=True)
    return plot.svg("predicted over actual values of the test rows")


def histogram(values: Array, label: str = "actual − predicted") -> str:
    """A histogram of values with at most forty columns."""
    counts, edges = np.histogram(values, bins=bin_edges(values))
    plot = Plot(Scale.of(edges), Scale(0, 1.08 * max(1, counts.max())), label, "rows", height=340)
    plot.columns(edges, counts)
    if edges[0] < 0 < edges[-1]:
        plot.line([0, 0], [0, counts.max()], "soft", dashed=True)
    return plot.svg(f"histogram of {label}")


def bin_edges(*values: Array) -> Array:
    """Bin edges for one or several histograms, without the outermost thousandths of the values."""
    flat = np.concatenate(values)
    low, high = np.quantile(flat, [0.001, 0.999]) if len(flat) > 1000 else (flat.min(), flat.max())
    if not high > low:
        low, high = Scale.of(flat).low, Scale.of(flat).high
    return np.linspace(low, high, int(np.clip(np.sqrt(len(flat)), 5, 40)) + 1)


def residual_words(residuals: Array) -> str:
    middle, low, high = np.quantile(residuals, [0.5, 0.05, 0.95])
    return f"Median {number(middle, 3)}; nine in ten lie between {number(low, 3)} and {number(high, 3)}."


def uncertainty(evidence: Evidence) -> Section | None:
    if evidence.classes:
        return None
    if evidence.distance is None or evidence.band is None:
        return Section(
            "Uncertainty", page.paragraph(f"There are no standard deviations: {evidence.without_deviation}.", soft=True)
        )
    observed, (low, high) = coverage(evidence.distance), evidence.band
    held = observed[LEVELS.tolist().index(0.95)]
    drawn = [
        page.figure(
            "Bands against what they hold",
            coverage_plot(observed, len(evidence.truth)),
            f"The band that should hold 95 % of new observations holds {share(held)} of the test rows. The gray "
            "area holds the curve of a perfect model 95 times in 100.",
            {"observed": "ours", "perfect": "soft dashed"},
        ),
        page.figure(
            "Predictions with their bands",
            band(evidence.truth[:, 0], evidence.predicted[:, 0], low[:, 0], high[:, 0], evidence.outputs[0]),
            f"Test rows by prediction, each with the actual value{_shown(len(evidence.truth))}.",
            {"predicted, 95 % band": "ours", "actual": "other"},
        ),
    ]
    words = "predict(return_std=True) gives every prediction a standard deviation. Are they honest?"
    return Section("Uncertainty", page.paragraph(words) + page.figures(drawn))


def coverage(scaled: Array) -> Array:
    """The share of rows whose distance from the prediction, in deviations, is within the band of each of `LEVELS`."""
    return np.array([(scaled <= norm.ppf((1 + level) / 2)).mean() for level in LEVELS])


def coverage_plot(observed: Array, n: int) -> str:
    plot = Plot(Scale(0, 1), Scale(0, 1), "share that the band should hold", "share that it holds", height=340)
    spread = 1.96 * np.sqrt(LEVELS * (1 - LEVELS) / n)
    levels, low, high = ([0.0, *part, 1.0] for part in (LEVELS, LEVELS - spread, LEVELS + spread))
    plot.band(levels, np.clip(low, 0, 1), np.clip(high, 0, 1), "soft")
    plot.line([0, 1], [0, 1], "soft", dashed=True)
    plot.line([0, *LEVELS], [0, *observed])
    plot.dots(LEVELS, observed, size=6)
    return plot.svg("observed over nominal coverage")


def band(truth: Array, predicted: Array, low: Array, high: Array, name: str) -> str:
    """Actual values on the predictions, sorted, with the band that should hold 95 % of them."""
    order = np.argsort(predicted, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, MOST_SHOWN).round().astype(int))]
    mean, low, high, actual = (values[order] for values in (predicted, low, high, truth))
    place = np.arange(len(order))
    ends = Scale.of(low, high, actual)
    plot = Plot(Scale(-0.5, max(1.0, len(order) - 0.5)), ends, "test rows, by prediction", short(name), height=340)
    plot.band(place, low, high)
    plot.line(place, mean)
    plot.dots(place, actual, "other", size=4.5)
    return plot.svg("predictions with their bands and the actual values")


def _shown(n: int) -> str:
    return f"; {MOST_SHOWN} of {n:,} rows" if n > MOST_SHOWN else ""
