"""The page about a classifier with several labels per row: how well each label is predicted."""

from __future__ import annotations

import datetime
import time
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.estimators.data import read_labels

from . import page
from .evidence import rows_of
from .metrics import bootstrap
from .origin import reproduce_model, times_of
from .page import Section
from .text import number, share

Array = np.ndarray[Any, Any]

HEADS = ("label", "rows that have it", "accuracy", "baseline", "balanced accuracy", "AUC", "average precision")


def has_labels(model: Any) -> bool:
    """Whether a fitted model, or the last step of a pipeline, predicts several labels per row."""
    estimator = model[-1] if isinstance(model, Pipeline) else model
    return bool(getattr(estimator, "multilabel_", False))


def labels_page(
    model: Any, X: Any, y: Any, *, threshold: float | None, title: str | None, reproduce: str | None
) -> str:
    """The whole page, for test rows and zeros and ones of shape (n, k)."""
    check_is_fitted(model)
    if threshold is not None:
        raise ValueError("threshold is for two classes, and this model predicts several labels per row: leave it out")
    estimator = model[-1] if isinstance(model, Pipeline) else model
    rows = rows_of(X)
    truth = np.asarray(read_labels(y, rows=rows, several=True))
    if truth.ndim != 2 or truth.shape[1] != len(estimator.classes_):
        shape = (rows, len(estimator.classes_))
        raise ValueError(f"y_test must be zeros and ones of shape {shape}, as in the fit, got shape {truth.shape}")
    began = time.perf_counter()
    predicted, scores = np.asarray(model.predict(X)), np.asarray(model.predict_proba(X))
    seconds = time.perf_counter() - began
    truth, predicted = truth != 0, predicted != 0
    names = list(getattr(estimator, "_target_names", None) or map(str, estimator.classes_))
    sections = [
        _labels(names, truth, predicted, scores),
        times_of(estimator, rows, seconds),
        reproduce_model(model, estimator, reproduce),
    ]
    today = datetime.datetime.now().astimezone().date().isoformat()
    subtitle = f"{type(estimator).__name__} · {len(names):,} labels · tested on {rows:,} rows · {today}"
    return page.document(title or "Model report", subtitle, sections, lead=_summary(truth, predicted))


def _summary(truth: Array, predicted: Array) -> str:
    """Shares of rows and of labels that are right, beside those of a model that always says what is more frequent."""
    guess = np.broadcast_to(truth.mean(0) > 0.5, truth.shape)

    def right(of: Array) -> Array:
        return np.stack([(of == truth).all(1), (of == truth).mean(1)], 1).astype(float)

    hits = right(predicted)
    low, high = bootstrap(lambda weights: weights @ hits / weights.sum(), len(truth))
    naive = right(guess).mean(0)
    cards = [
        (name, share(value), f"{share(a)} to {share(b)}; baseline {share(base)}")
        for name, value, a, b, base in zip(
            ("All labels right", "Labels right"), hits.mean(0), low, high, naive, strict=True
        )
    ]
    useless = float(hits.mean()) <= float(naive.mean())
    alarm = page.warning("The model is no better than one that never looks at the features.") if useless else ""
    words = "The 95 % intervals are by bootstrap over the test rows. The baseline gives every row the frequent labels."
    return alarm + page.cards(cards) + page.paragraph(words, soft=True)


def _labels(names: list[str], truth: Array, predicted: Array, scores: Array) -> Section:
    """A row for each label, the rarest last."""
    rows, ranked = [], []
    for place in np.argsort(-truth.mean(0), kind="stable"):
        has, says, score = truth[:, place], predicted[:, place], scores[:, place]
        both = bool(has.any() and not has.all())
        precision = float(average_precision_score(has, score)) if both else float("nan")
        values = [
            share(float(has.mean())),
            share(float((has == says).mean())),
            share(float(max(has.mean(), 1 - has.mean()))),
            share(float(balanced_accuracy_score(has, says))) if both else "–",
            number(float(roc_auc_score(has, score)), 3) if both else "–",
            number(precision, 3),
        ]
        rows.append([names[place], *values])
        if both:
            ranked.append((names[place], precision, number(precision, 3)))
    words = "The baseline always says what is more frequent. A label that all test rows have, or none, gets no AUC."
    figure = page.figure("Average precision by label", page.bars(ranked), "")
    return Section("Labels", page.table(HEADS, rows) + page.paragraph(words, soft=True) + page.figures([figure]))
