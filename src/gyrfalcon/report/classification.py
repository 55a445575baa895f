"""Figures for classification: ROC curves, calibration and confusion."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from . import page
from .evidence import Evidence
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import number, share, short

Array = np.ndarray[Any, Any]

MOST_LARGE = 4  # classes of a table in large type
MOST_NUMBERED = 12  # classes of a table with numbers
MOST_SHADED = 60  # classes of a picture
MOST_CURVES = 26
CURVE_POINTS = 150
BINS = 10


def predictions(evidence: Evidence) -> Section | None:
    if evidence.probabilities is None:
        return None
    truth, predicted, names = evidence.truth, evidence.predicted, evidence.outputs
    counts = confusion_counts(truth, predicted, len(names))
    wrong = int((truth != predicted).sum())
    drawn = []
    if len(names) <= MOST_SHADED:
        caption = f"{wrong:,} of {len(truth):,} test rows are wrong. Rows: actual; columns: predicted."
        drawn.append(page.figure("Confusion", confusion(counts, names), caption))
    drawn.append(roc(evidence, evidence.probabilities))
    drawn.append(calibration(truth, evidence.probabilities))
    if len(names) == 2:
        drawn.append(
            page.figure("What it says of each class", _said(evidence, evidence.probabilities[:, 1]), "", _keys(names))
        )
    elif wrong:
        pairs = counts * (1 - np.eye(len(names), dtype=int))
        worst = np.argsort(-pairs, axis=None, kind="stable")[:8]
        rows = [
            [names[a], names[b], f"{pairs[a, b]:,}", share(pairs[a, b] / counts[a].sum())]
            for a, b in (np.unravel_index(place, pairs.shape) for place in worst)
            if pairs[a, b]
        ]
        listed = page.table(["actual", "predicted", "rows", "of the class"], rows, words=(0, 1))
        drawn.append(page.figure("Most often confused", listed, ""))
    words = "Which classes the model gets right, which it confuses, and how reliable its probabilities are."
    return Section("Predictions", page.paragraph(words) + page.figures([part for part in drawn if part]))


def _keys(names: list[str]) -> dict[str, str]:
    return {short(names[0], 20): "other", short(names[1], 20): "ours"}


def _said(evidence: Evidence, probabilities: Array) -> str:
    """Histograms of the probability of the second class, one for the rows of each class."""
    edges = np.linspace(0, 1, 21)
    parts = [probabilities[evidence.truth == place] for place in (0, 1)]
    heights = [np.histogram(part, edges)[0] / max(1, len(part)) for part in parts]
    label = f"probability of {short(evidence.outputs[1], 30)}"
    plot = Plot(
        Scale(0, 1), Scale(0, 1.05 * max(0.01, float(np.max(heights)))), label, "share of the class", height=340
    )
    for height, kind in zip(heights, ("other", "ours"), strict=True):
        plot.steps(edges, height, kind)
    return plot.svg("histograms of the probability of the second class")


def confusion_counts(truth: Array, predicted: Array, classes: int) -> Array:
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def confusion(counts: Array, names: list[str]) -> str:
    """Confusion counts, shaded by their share of the class, as a table if it is small enough, else as a figure."""
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    if len(names) > MOST_NUMBERED:
        return _shades(shares)
    few = len(names) <= MOST_LARGE
    heads = "".join(f'<th title="{escape(name)}"><span>{escape(short(name, 14))}</span></th>' for name in names)
    kind = " few" * few + " upright" * (not few and max(map(len, names)) > 3)
    body = "".join(
        f'<tr><th class="words" title="{escape(name)}">{escape(short(name, 14))}</th>'
        + "".join(_cell(count, part) for count, part in zip(counts[row], shares[row], strict=True))
        + "</tr>"
        for row, name in enumerate(names)
    )
    return f'<div class="scroll"><table class="cells{kind}"><tr><th></th>{heads}</tr>{body}</table></div>'


def _cell(count: int, part: float) -> str:
    if not count:
        return "<td></td>"
    # Roots, so that single errors stay visible.
    return f'<td style="background:color-mix(in srgb,var(--cell) {70 * np.sqrt(part):.0f}%,transparent)">{count}</td>'


def _shades(shares: Array) -> str:
    size = 360 / len(shares)
    cells = "".join(
        f'<path class="fill ours" fill-opacity="{np.sqrt(shares[row, column]):.2f}" '
        f'd="M{column * size:.1f} {row * size:.1f}h{size:.1f}v{size:.1f}h-{size:.1f}z"/>'
        for row, column in zip(*np.nonzero(shares), strict=True)
    )
    return f'<svg viewBox="0 0 360 360" role="img" aria-label="confusion of the classes">{cells}</svg>'


def roc(evidence: Evidence, probabilities: Array) -> str:
    """ROC curves: the share of a class that is found against the share of the others, for each class and for all."""
    truth, count = evidence.truth, len(evidence.outputs)
    plot = Plot(Scale(0, 1), Scale(0, 1), "false positive rate", "true positive rate", height=340)
    plot.line([0, 1], [0, 1], "soft", dashed=True)
    hits = truth[:, None] == np.arange(count)
    if count == 2:
        at = evidence.positive
        if not 0 < hits[:, at].sum() < len(truth):
            return ""
        plot.line(*_thinned(*roc_curve(hits[:, at], probabilities[:, at])[:2]))
        caption = (
            f"The share of {short(evidence.outputs[at])} that is found (true positive rate), over the share of the "
            "others that is taken for it (false positive rate)."
        )
        return page.figure(
            "ROC curve", plot.svg("ROC curve"), caption, {"the model": "ours", "guessing": "soft dashed"}
        )
    present = [place for place in range(count) if 0 < hits[:, place].sum() < len(truth)]
    for place in present if len(present) <= MOST_CURVES else []:
        plot.line(*_thinned(*roc_curve(hits[:, place], probabilities[:, place])[:2]), "soft")
    plot.line(*_thinned(*roc_curve(hits.ravel(), probabilities.ravel())[:2]))
    keys = {"all classes together": "ours", "guessing": "soft dashed"}
    caption = "Each class against the rest." if len(present) <= MOST_CURVES else ""
    return page.figure("ROC curves", plot.svg("ROC curves, each class against the rest"), caption, keys)


def _thinned(xs: Array, ys: Array) -> tuple[Array, Array]:
    kept = np.unique(np.linspace(0, len(xs) - 1, CURVE_POINTS).round().astype(int))
    return xs[kept], ys[kept]


def calibration(truth: Array, probabilities: Array) -> str:
    """Observed frequency by predicted probability, of the second of two classes or of all pairs of row and class."""
    came_true = truth[:, None] == np.arange(probabilities.shape[1])
    said, came_true = (
        part[:, 1:].ravel() if part.shape[1] == 2 else part.ravel() for part in (probabilities, came_true)
    )
    bins = np.clip((said * BINS).astype(int), 0, BINS - 1)
    sizes, sums, hits = (np.bincount(bins, weights, BINS) for weights in (None, said, came_true))
    filled = sizes > 0
    sizes, means, rates = sizes[filled], (sums[filled] / sizes[filled]), (hits[filled] / sizes[filled])
    low, high = wilson(rates, sizes)
    plot = Plot(Scale(-0.03, 1.03), Scale(-0.03, 1.03), "probability given", "share that came true", height=340)
    plot.line([0, 1], [0, 1], "soft", dashed=True)
    plot.whiskers(means, low, high)
    plot.line(means, rates)
    plot.dots(means, rates, size=7)
    gap = float(np.average(np.abs(means - rates), weights=sizes))
    what = "rows" if probabilities.shape[1] == 2 else "pairs of row and class"
    caption = f"{len(said):,} {what}; the mean gap is {number(gap, 2)}. Bars: 95 % of chance."
    keys = {"the model": "ours", "perfect": "soft dashed"}
    return page.figure("Calibration", plot.svg("share that came true over probability given"), caption, keys)


def wilson(rates: Array, sizes: Array, z: float = 1.96) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share, which stays between zero and one.

    >>> import numpy as np
    >>> [round(float(end[0]), 3) for end in wilson(np.array([0.0]), np.array([10]))]
    [0.0, 0.278]
    """
    middle = (rates + z**2 / (2 * sizes)) / (1 + z**2 / sizes)
    half = z / (1 + z**2 / sizes) * np.sqrt(rates * (1 - rates) / sizes + z**2 / (4 * sizes**2))
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
