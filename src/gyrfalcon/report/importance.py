"""Permutation importance: how much worse a model predicts if one column is shuffled over the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from gyrfalcon.progress import Bar

Array = np.ndarray[Any, Any]

SHUFFLES = 3
MOST_ROWS = 1000
LEAST_ROWS = 50  # fewer say too little
MOST_SECONDS = 2.0  # reckoned, not measured, so that the same model always has the same report
# Of a call of predict, a value of a row or a center, and an operation on an entry of the kernel matrix, as on one core.
CALL, VALUE, OPERATION = 1e-3, 5e-9, 4e-11
LEAST_LIKELY = 1e-3
ENTRY = 100  # operations on an entry, beside one for each feature and output


def importance(estimator: Any, points: Any, columns: Sequence[str], y: Array) -> tuple[dict[str, float], str]:
    """How much the error grows if each column is shuffled, the most important first, or why that is not known.

    The error of a classification is the log loss, or the share that is wrong if there are no probabilities; that of a
    regression is the RMSE, as a share of what it is now, on average over the outputs.

    Parameters
    ----------
    estimator : a fitted estimator
    points : array or sparse matrix of shape (n, d)
    columns : sequence of str
        Of each feature. Those of one column are shuffled together, as if the column itself were.
    y : labels of shape (n,), or targets of shape (n,) or (n, t)

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = 3 * X[:, 1] + 0.1 * np.sin(9 * X[:, 0])
    >>> found, _ = importance(gf.KernelRegressor(random_state=0).fit(X, y), X, ["a", "b"], y)
    >>> list(found)
    ['b', 'a']
    """
    if len(y) < 2:
        return {}, "one test row cannot be shuffled"
    groups: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        groups.setdefault(column, []).append(place)
    rows, shuffles = _affordable(len(y), len(groups), estimator)
    if rows < min(len(y), LEAST_ROWS):
        return {}, f"{len(groups):,} features are too many to shuffle one by one"
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(y))[:rows])
    points, y = points[chosen], y[chosen]
    orders = np.concatenate([random.permutation(rows) for _ in range(shuffles)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        now = _errors(estimator, points, y)
        if not (now > 0).any() and not is_classifier(estimator):
            return {}, "the model makes no error that could grow"
        found = {}
        with Bar("importance", verbose=bool(getattr(estimator, "verbose", True)), total=len(groups)) as bar:
            for column, features in groups.items():
                grown = _errors(estimator, _shuffled(points, features, orders), y)
                found[column] = float((grown - now if is_classifier(estimator) else (grown / now)[now > 0] - 1).mean())
                bar.step()
    return dict(sorted(found.items(), key=lambda item: -item[1])), ""


def _affordable(n: int, columns: int, estimator: Any) -> tuple[int, int]:
    """How many rows to shuffle, and how often."""
    coefficients = np.asarray(estimator.coefficients_)
    centers, features = len(coefficients), estimator.n_features_in_
    outputs = coefficients.size // max(1, centers)
    leaves = getattr(estimator, "partition_", None)
    if leaves is not None:  # most rows have one leaf
        centers += leaves.points.shape[0] // leaves.n_leaves
    row = OPERATION * centers * (ENTRY + features + outputs) + VALUE * features
    most = max(0.0, (MOST_SECONDS / columns - CALL - VALUE * centers * features) / row)
    rows = min(n, MOST_ROWS)
    shuffles = int(np.clip(most // rows, 1, SHUFFLES))
    return int(min(rows, most)), shuffles


def _shuffled(points: Any, features: list[int], orders: Array) -> Any:
    """The rows repeated once per permutation, with some features permuted."""
    rows, width = points.shape
    again = np.arange(len(orders)) % rows
    if sparse.issparse(points):
        moved = np.zeros(width)
        moved[features] = 1
        return (points[again] @ sparse.diags_array(1 - moved) + points[orders] @ sparse.diags_array(moved)).tocsr()
    out = points[again]
    out[:, features] = points[orders[:, None], features]
    return out


def _errors(estimator: Any, points: Any, y: Array) -> Array:
    """The mean error of the outputs over the repetitions of the rows."""
    if is_classifier(estimator) and hasattr(estimator, "predict_proba"):
        return np.array([_log_loss(estimator, np.asarray(estimator.predict_proba(points)), y)])
    found = np.asarray(estimator.predict(points))
    times = len(found) // len(y)
    if is_classifier(estimator):
        return np.array([(found.astype(object) != np.tile(y, times).astype(object)).mean()])
    gaps = found.reshape(times, len(y), -1) - y.reshape(len(y), -1)
    unit = np.maximum(np.abs(gaps).max((0, 1)), np.finfo(float).tiny)  # so that squares do not overflow
    errors: Array = (np.sqrt(((gaps / unit) ** 2).mean(1)) * unit).mean(0)
    return errors


def _log_loss(estimator: Any, probabilities: Array, y: Array) -> float:
    """The mean of -log of the probability of the true class, none of which is taken as less than a thousandth.

    Without that bound, a few rows for which the model is sure and wrong would decide the order.
    """
    places = {label: place for place, label in enumerate(np.asarray(estimator.classes_).tolist())}
    truth = np.array([places.get(label, -1) for label in y.tolist()])
    times = len(probabilities) // len(y)
    said = np.where(truth < 0, 0.0, probabilities.reshape(times, len(y), -1)[:, np.arange(len(y)), truth])
    return float(-np.log(np.maximum(said, LEAST_LIKELY)).mean())
