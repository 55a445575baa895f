"""Real data sets from the folder that GYRFALCON_DATA names, split, capped and standardised."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from .mnist import file_of
from .synthetic import Split

Array = np.ndarray[Any, Any]

LOGARITHMIC = ("houseelectric",)  # targets, as in the literature
TEST_SHARE = 0.2  # where the source has no split of its own
PAIRS_FROM = 1000  # rows whose distances the median is taken of


def load(name: str, seed: int, rows: int | None = None, test_rows: int | None = None) -> Split:
    """Training and test rows as they are, at most so many of each.

    The split is that of the source: its test set, or the mask that the seed names; without either it is random. The
    seed also draws the rows.
    """
    random = np.random.default_rng(seed)
    with np.load(file_of(name)) as arrays:
        X, y = _flights(arrays) if name == "flights3m" else (arrays["X"], arrays["y"])
        if "X_test" in arrays:
            X, y = (np.concatenate([arrays[key], arrays[f"{key}_test"]]) for key in ("X", "y"))
            test = np.arange(len(X)) >= len(arrays["X"])
        elif "test_mask" in arrays:
            test = arrays["test_mask"][:, seed]
        else:
            test = random.random(len(X)) < TEST_SHARE
    if name in LOGARITHMIC:
        y = np.log(y)
    kept, held = (random.permutation(np.flatnonzero(part))[:most] for part, most in ((~test, rows), (test, test_rows)))
    return Split(X[kept], y[kept], X[held], y[held])


def _flights(arrays: Any) -> tuple[Array, Array]:
    """Date, time and distance of a flight and where its airports lie; its delay."""
    places = arrays["latlon"]
    columns = [arrays[key] for key in ("month", "day", "wday", "minute", "dist")]
    X = np.column_stack([*columns, places[arrays["o"]], places[arrays["d"]]])
    return X.astype(np.float32), arrays["y"].astype(np.float32)


def standardized(split: Split, dtype: Any = np.float64) -> Split:
    """Features, and targets too, with mean zero and variance one over the training rows."""
    X, X_test = _standardize(split.X, split.X_test)
    y, y_test = _standardize(split.y, split.y_test)
    return Split(*(part.astype(dtype) for part in (X, y, X_test, y_test)))


def encoded(split: Split, dtype: Any = np.float64) -> Split:
    """Standardised features and one column of ±1 for two classes, one-hot columns for more; y_test stays a column of
    classes, counted from zero."""
    X, X_test = _standardize(split.X, split.X_test)
    classes, places = np.unique(np.concatenate([split.y, split.y_test]), return_inverse=True)
    given, truth = np.split(places, [len(split.y)])
    Y = 2.0 * given[:, None] - 1 if len(classes) == 2 else np.eye(len(classes))[given]
    return Split(X.astype(dtype), Y.astype(dtype), X_test.astype(dtype), truth)


def median_distance(X: Array) -> float:
    return float(np.median(pdist(X[:PAIRS_FROM].astype(np.float64))))


def _standardize(train: Array, test: Array) -> tuple[Array, Array]:
    train, test = train.astype(np.float64), test.astype(np.float64)
    spread = train.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    mean = train.mean(0)
    return (train - mean) / spread, (test - mean) / spread
