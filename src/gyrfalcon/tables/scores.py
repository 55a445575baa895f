"""How good predictions are, in the numbers that people ask for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn import metrics

Array = np.ndarray[Any, Any]

REGRESSION_SCORES = ("rmse", "mae", "r2")
CLASS_SCORES = ("accuracy", "baseline_accuracy", "balanced_accuracy", "log_loss", "roc_auc", "average_precision")


def scores(
    truth: Array,
    predicted: Array,
    probabilities: Array | None = None,
    classes: Array | None = None,
    positive: Any = None,
) -> dict[str, float]:
    """Root mean square error, mean absolute error and R² of a regression; of a classification the following.

    - `accuracy`, and `baseline_accuracy`, which always predicting the most frequent class has.
    - `balanced_accuracy`: the mean over the classes of the share that is found.
    - `log_loss`, the mean of -log of the probability of the true class.
    - `roc_auc` and `average_precision`: of the positive class if there are two; of more, the mean over the classes.

    Numbers that the rows do not determine, such as the ROC area of one class, are left out.

    Parameters
    ----------
    truth, predicted : arrays of shape (n,)
    probabilities : array of shape (n, k), optional
        Makes it a classification.
    classes : array of shape (k,), optional
        What the columns of `probabilities` stand for, in order.
    positive : label, optional
        The positive one of two classes; the second if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.tables import scores
    >>> found = scores(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    >>> found["rows"], round(found["rmse"], 3), round(found["r2"], 3)
    (3, 0.577, 0.786)
    >>> chances = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    >>> found = scores(np.array([0, 1, 0]), np.array([0, 0, 0]), chances, np.array([0, 1]))
    >>> found["accuracy"] == found["baseline_accuracy"], found["balanced_accuracy"], found["roc_auc"]
    (True, 0.5, 1.0)
    """
    if probabilities is None or classes is None:
        truth, predicted = (np.asarray(values, dtype=np.float64) for values in (truth, predicted))
        # So that no square overflows, or vanishes.
        unit = _power_of_two(np.concatenate([truth.ravel(), predicted.ravel()]))
        truth, predicted = truth / unit, predicted / unit
        found = {
            "rmse": unit * math.sqrt(metrics.mean_squared_error(truth, predicted)),
            "mae": unit * float(metrics.mean_absolute_error(truth, predicted)),
        }
        if np.ptp(truth) > 0:
            found["r2"] = float(metrics.r2_score(truth, predicted))
        return {"rows": len(truth)} | found
    labels, present, sizes = np.unique(truth, return_inverse=True, return_counts=True)
    right = np.asarray(truth == predicted, dtype=bool)
    found = {
        "accuracy": float(right.mean()),
        "baseline_accuracy": float(sizes.max() / len(truth)),
        "balanced_accuracy": float(np.mean(np.bincount(present, right) / sizes)),
    }
    places = np.minimum(np.searchsorted(classes, truth), len(classes) - 1)
    if (classes[places] == truth).all():
        likely = np.clip(probabilities[np.arange(len(truth)), places].astype(np.float64), 1e-15, 1.0)
        found["log_loss"] = float(-np.log(likely).mean())
        ranked = [place_of(positive, classes)] if len(classes) == 2 else np.searchsorted(classes, labels).tolist()
        if len(labels) > 1:
            hits = [places == place for place in ranked]
            chances = [probabilities[:, place] for place in ranked]
            for name, score in (
                ("roc_auc", metrics.roc_auc_score),
                ("average_precision", metrics.average_precision_score),
            ):
                found[name] = float(np.mean([score(hit, chance) for hit, chance in zip(hits, chances, strict=True)]))
    return {"rows": len(truth)} | found


def place_of(positive: Any, classes: Array) -> int:
    """The number of the positive one of two classes: the one that is named, or the second."""
    if len(classes) != 2:
        raise ValueError(f"positive and threshold are for two classes, and there are {len(classes)}: leave them out")
    if positive is None:
        return 1
    named = [str(label) for label in classes.tolist()]
    if str(positive) not in named:
        raise ValueError(f"positive={positive!r} is none of the classes, {' and '.join(named)}")
    return named.index(str(positive))


def decide(probabilities: Array, classes: Array, threshold: float, positive: Any = None) -> Array:
    """The positive class where its probability reaches the threshold, and the other class elsewhere.

    Parameters
    ----------
    probabilities : array of shape (n, 2)
    classes : array of shape (2,)
    threshold : float
    positive : label, optional
        The second class if not given.

    Examples
    --------
    >>> import numpy as np
    >>> decide(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array(["no", "yes"]), 0.25).tolist()
    ['no', 'yes']
    """
    place = place_of(positive, classes)
    reached: Array = probabilities[:, place] >= threshold
    return classes[np.where(reached, place, 1 - place)]


def _power_of_two(values: Array) -> float:
    """One near the largest of the numbers, by which dividing is exact."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return math.ldexp(1.0, min(max(math.frexp(largest)[1], -1020), 1020))
