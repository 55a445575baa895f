"""How good predictions are, in the numbers that people ask for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn import metrics

Array = np.ndarray[Any, Any]


def scores(truth: Array, predicted: Array, probabilities: Array | None = None, classes: Array | None = None) -> Any:
    """Root mean square error, mean absolute error and R²; of classes accuracy, log loss and, of two, the ROC area.

    Numbers that the rows do not determine, such as the ROC area of one class, are left out.

    Parameters
    ----------
    truth, predicted : arrays of shape (n,)
    probabilities : array of shape (n, k), optional
        Makes it a classification.
    classes : array of shape (k,), optional
        What the columns of `probabilities` stand for, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.tables import scores
    >>> found = scores(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    >>> found["rows"], round(found["rmse"], 3), round(found["r2"], 3)
    (3, 0.577, 0.786)
    """
    if probabilities is None or classes is None:
        found = {
            "rmse": math.sqrt(metrics.mean_squared_error(truth, predicted)),
            "mae": float(metrics.mean_absolute_error(truth, predicted)),
        }
        if np.ptp(truth) > 0:
            found["r2"] = float(metrics.r2_score(truth, predicted))
        return {"rows": len(truth)} | found
    found = {"accuracy": float(np.mean(truth == predicted))}
    places = np.searchsorted(classes, truth)
    known = classes[np.minimum(places, len(classes) - 1)] == truth
    if known.all():
        likely = np.clip(probabilities[np.arange(len(truth)), places].astype(np.float64), 1e-15, 1.0)
        found["log_loss"] = float(-np.log(likely).mean())
        if len(classes) == 2 and 0 < places.sum() < len(truth):
            found["roc_auc"] = float(metrics.roc_auc_score(places, probabilities[:, 1]))
    return {"rows": len(truth)} | found
