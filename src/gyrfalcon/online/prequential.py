"""Prequential evaluation: every batch is predicted before it is learned from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score
from sklearn.utils.validation import check_is_fitted

from .streams import batches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]
Metric = Callable[[Array, Array], float]


def _rmse(y: Array, predicted: Array) -> float:
    return float(np.sqrt(np.mean(np.square(y - predicted))))


def _nrmse(y: Array, predicted: Array) -> float:
    spread = float(np.sqrt(np.mean(np.var(y, axis=0))))
    return _rmse(y, predicted) / spread if spread else float("nan")


METRICS: dict[str, Metric] = {
    "accuracy": lambda y, predicted: float(np.mean(y == predicted)),
    "balanced_accuracy": lambda y, predicted: float(balanced_accuracy_score(y, predicted)),
    "mae": lambda y, predicted: float(np.mean(np.abs(y - predicted))),
    "rmse": _rmse,
    "nrmse": _nrmse,  # over the standard deviation of the targets
    "nmse": lambda y, predicted: _nrmse(y, predicted) ** 2,
}


@dataclass(frozen=True)
class Prequential:
    """What a model predicted along a stream, before it was told.

    Attributes
    ----------
    metric : str
        The name of the metric.
    score : float
        The metric of all predictions.
    rows : array
        Rows seen at the end of each batch that was predicted.
    scores : array
        The metric of the latest predictions, at each of these moments.
    seconds : array
        What predicting and learning each batch took.
    y, predicted : array
        Targets and predictions.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> found = gf.online.prequential(gf.online.RecursiveRegressor(), (X, X[:, 0]), metric="rmse", rows=10)
    >>> isinstance(found, gf.online.Prequential), bool(found.scores[-1] < found.scores[0])
    (True, True)
    """

    metric: str
    score: float
    rows: Array
    scores: Array
    seconds: Array
    y: Array
    predicted: Array

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the metric of the latest predictions against the rows seen.

        Parameters
        ----------
        ax : matplotlib axes, optional
        **options
            Of `matplotlib.axes.Axes.plot`.
        """
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("plots need matplotlib: pip install 'gyrfalcon[plot]'") from error
            ax = pyplot.gca()
        ax.plot(self.rows, self.scores, **options)
        ax.set_xlabel("rows seen")
        ax.set_ylabel(self.metric)
        return ax


def prequential(
    model: Any,
    stream: Any,
    metric: str | Metric | None = None,
    *,
    target: Any = None,
    rows: int = 100,
    latest: int = 1000,
) -> Prequential:
    """Predict each batch of a stream, then learn from it. The model is changed; the first batch is only learned.

    Parameters
    ----------
    model : estimator with `predict` and `partial_fit`
        One that has been fitted predicts the first batch as well.
    stream : path, Table, (X, y) or iterable of batches
        See `gyrfalcon.online.batches`.
    metric : str or callable of (y, predicted)
        "accuracy", "balanced_accuracy", "rmse", "nrmse" (over the deviation of the targets), "nmse" or "mae". The
        accuracy for classifiers and "nrmse" for others, if not given.
    target : str or int, optional
        The column of a file that holds the targets.
    rows : int
        In each batch of a file or of arrays.
    latest : int
        How many predictions the curve looks back.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(2000, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "right", "left")
    >>> found = gf.online.prequential(gf.online.RecursiveClassifier(), (X, y))
    >>> found.metric, bool(found.score > 0.9)
    ('accuracy', True)
    """
    name, judge = _metric_of(model, metric)
    seen, told = 0, []
    truths: list[Array] = []
    guesses: list[Array] = []
    seconds: list[float] = []
    known = _is_fitted(model)
    for X, y, *weights in batches(stream, target=target, rows=rows):
        begin = time.perf_counter()
        guess = np.asarray(model.predict(X)) if known else None
        learn = {"sample_weight": weights[0]} if weights else {}
        model.partial_fit(X, y, **learn)
        elapsed = time.perf_counter() - begin
        known, seen = True, seen + len(y)
        if guess is not None:
            truths.append(np.asarray(y))
            guesses.append(guess)
            seconds.append(elapsed)
            told.append(seen)
    if not truths:
        raise ValueError("the stream has no batch after the first, which cannot be predicted")
    truth, predicted = np.concatenate(truths), np.concatenate(guesses)
    ends = np.cumsum([len(part) for part in truths])
    scores = [judge(truth[max(0, end - latest) : end], predicted[max(0, end - latest) : end]) for end in ends]
    return Prequential(
        name, judge(truth, predicted), np.array(told), np.array(scores), np.array(seconds), truth, predicted
    )


def _metric_of(model: Any, metric: str | Metric | None) -> tuple[str, Metric]:
    if metric is None:
        metric = "accuracy" if is_classifier(model) else "nrmse"
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    if metric not in METRICS:
        raise ValueError(f"metric must be a function or one of {sorted(METRICS)}, got {metric!r}")
    return metric, METRICS[metric]


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True
