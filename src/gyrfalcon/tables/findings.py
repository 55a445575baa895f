"""What a test shows to be wrong with a model, in words that nobody overlooks, and the likely cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .scores import scores

Array = np.ndarray[Any, Any]

FEW_ROWS = 50  # of training, which may be too few to learn from
NAMED = 3  # classes or columns that are named


def findings(
    truth: Array,
    predicted: Array,
    probabilities: Array | None = None,
    classes: Array | None = None,
    *,
    train_rows: int | None = None,
    dropped: Mapping[str, str] | None = None,
) -> list[str]:
    """Sentences about a model that learned nothing, or never predicts a class; none if there is nothing to say.

    A regression has learned nothing if its R² is at most zero. A classification has if its balanced accuracy and the
    area under its ROC curve are within two standard errors of guessing.

    Parameters
    ----------
    truth, predicted, probabilities, classes
        As for `scores`.
    train_rows : int, optional
        Rows that the model was fitted to.
    dropped : mapping of str to str, optional
        Columns that the model does not use, and why.

    Examples
    --------
    >>> import numpy as np
    >>> print(*findings(np.array([1.0, 2.0, 3.0]), np.array([2.5, 2.5, 2.5]), train_rows=12))
    The model has learned nothing: on the test rows its R² is -0.375, and always predicting their mean is as good. \
Likely cause: 12 rows are too few to learn from.
    """
    found = scores(truth, predicted, probabilities, classes)
    cause = _cause(train_rows, dropped or {})
    if probabilities is None or classes is None:
        if not found.get("r2", 1.0) <= 0:  # or not a number, where squares overflow
            return []
        as_good = "always predicting their mean is as good" if found["r2"] > -0.5 else "predicting their mean is better"
        return [f"The model has learned nothing: on the test rows its R² is {found['r2']:.3f}, and {as_good}. {cause}"]
    labels, sizes = np.unique(truth, return_counts=True)
    if len(labels) < 2:
        return []
    if _guesses(found, sizes):
        return [
            "The model has learned nothing: on the test rows its balanced accuracy is "
            f"{found['balanced_accuracy']:.3f}, and guessing has {1 / len(labels):.3f}. {cause}"
        ]
    never = [place for place, label in enumerate(labels.tolist()) if not (predicted == label).any()]
    return [_never_predicted(labels[never], sizes[never], len(truth), found)] if never else []


def _guesses(found: Mapping[str, float], sizes: Array) -> bool:
    """Whether neither the predictions nor the order of the probabilities are better than guessing."""
    k, n = len(sizes), int(sizes.sum())
    deviation = math.sqrt(float(np.sum((1 / k) * (1 - 1 / k) / sizes))) / k
    if found["balanced_accuracy"] > 1 / k + 2 * deviation:
        return False
    others = n - sizes
    spread = math.sqrt(float(np.mean((n + 1) / (12 * sizes * others))))
    return found.get("roc_auc", 0.5) <= 0.5 + 2 * spread


def _never_predicted(labels: Array, sizes: Array, n: int, found: Mapping[str, float]) -> str:
    named = ", ".join(f"{label!r}" for label in labels[:NAMED].tolist())
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    one = len(labels) == 1
    share = 100 * int(sizes.sum()) / n
    begins = f"The class {named} is" if one else f"The classes {named}{more} are"
    text = f"{begins} never predicted, though {share:.1f} % of the test rows have {'it' if one else 'them'}. "
    if found.get("roc_auc", 0.0) > 0.6:
        text += f"The probabilities do rank the rows (ROC AUC {found['roc_auc']:.2f}). "
    return text + "Likely cause: it is rare. Weigh the classes (class_weight='balanced'), or lower the threshold."


def _cause(train_rows: int | None, dropped: Mapping[str, str]) -> str:
    text = {name: why for name, why in dropped.items() if why.startswith("text")}
    if text:
        named = ", ".join(f"{name!r}" for name in list(text)[:NAMED])
        more = f" and {len(text) - NAMED} more" if len(text) > NAMED else ""
        why = next(iter(text.values()))
        return (
            f"Likely cause: columns are not used, {named}{more} ({why}). If they hold numbers or dates, correct them."
        )
    if train_rows is not None and train_rows < FEW_ROWS:
        return f"Likely cause: {train_rows} rows are too few to learn from."
    return "Likely cause: the columns do not say much about the target, or the column that does is missing."
