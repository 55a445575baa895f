"""The section about the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from . import page
from .evidence import Evidence, plain, rows_of
from .page import Section
from .plot import Plot
from .regression import bin_edges
from .scale import Scale
from .text import day, number, share, short

Array = np.ndarray[Any, Any]

MOST_LISTED = 12  # features
MOST_CLASSES = 20


def data(evidence: Evidence) -> Section:
    n = rows_of(evidence.X)
    about = {"Test rows": f"{n:,}"}
    if evidence.y_train is not None:
        about["Training rows"] = f"{len(evidence.y_train):,}"
    about["Features"] = f"{len(evidence.names):,}"
    if sparse.issparse(evidence.points):
        about["Stored entries"] = share(evidence.points.nnz / max(1, np.prod(evidence.points.shape)))
    if gaps := missing(evidence.X):  # of a table, they may have been filled before
        about["Missing values"] = f"{gaps:,}"
    about["Classes" if evidence.classes else "Targets"] = f"{len(evidence.outputs):,}"
    drawn = (
        [_classes(evidence)] if evidence.classes else [_targets(evidence, i) for i in range(len(evidence.outputs))[:3]]
    )
    return Section("Data", page.facts(about) + page.figures([*drawn, _features(evidence)]))


def _features(evidence: Evidence) -> str:
    rows = [_described(evidence, place) for place in evidence.by_importance[:MOST_LISTED]]
    caption = "Of the test rows."
    if len(rows) < len(evidence.names):
        caption += (
            f" {len(rows)} of {len(evidence.names):,} features{', by importance' if evidence.importance else ''}."
        )
    return page.figure("Features", page.table(["", "least", "median", "most", "spread"], rows), caption)


def missing(X: Any) -> int:
    """How many entries are NaN or null."""
    if hasattr(X, "isna"):
        return int(X.isna().to_numpy().sum())
    if hasattr(X, "null_count"):
        return int(sum(X.null_count().row(0)))
    values = X.data if sparse.issparse(X) else plain(X)
    if values.dtype == object:
        return sum(value is None or value != value for value in values.ravel().tolist())
    return int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0


def _described(evidence: Evidence, feature: int) -> list[str]:
    values, name, column = evidence.column(feature), evidence.names[feature], evidence.columns[feature]
    places = (values.min(), np.median(values), values.max())
    spread = number(values.std(), 3)
    rule = evidence.rules.get(column)
    if rule is not None and rule.kind == "date" and name == rule.labels[0]:
        return [column, *(day(value) for value in places), f"{spread} days"]
    return [name, *(number(value, 3) for value in places), spread]


def _targets(evidence: Evidence, place: int) -> str:
    parts = {"test": evidence.truth[:, place]}
    if evidence.y_train is not None:
        parts = {"training": evidence.y_train.reshape(-1, evidence.truth.shape[1])[:, place], **parts}
    edges = bin_edges(*parts.values())
    heights = {name: np.histogram(values, edges)[0] / len(values) for name, values in parts.items()}
    top = max(float(height.max()) for height in heights.values())
    name = evidence.outputs[place]
    plot = Plot(Scale.of(edges), Scale(0, 1.08 * max(top, 1e-3)), name, "share of rows")
    kinds = dict(zip(heights, ("soft", "ours")[-len(heights) :], strict=True))
    for part, height in heights.items():
        plot.steps(edges, height, kinds[part])
    title = "Target" if len(evidence.outputs) == 1 else f"Target {short(name)}"
    return page.figure(title, plot.svg(f"distribution of {name}"), "", kinds)


def _classes(evidence: Evidence) -> str:
    counts = np.bincount(evidence.truth, minlength=len(evidence.outputs))
    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    rows = [(evidence.outputs[i], float(counts[i]), f"{counts[i]:,}") for i in order]
    more = len(counts) - len(order)
    return page.figure("Classes of the test rows", page.bars(rows), f"And {more:,} with fewer." if more else "")
