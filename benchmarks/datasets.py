"""Real data sets from the folder that GYRFALCON_DATA names, split, capped and standardized."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from gyrfalcon.datasets import Split, describe
from gyrfalcon.datasets import load as load_split
from gyrfalcon.datasets.fetch import instructions, placed

Array = np.ndarray[Any, Any]

LOGARITHMIC = ("houseelectric",)  # targets, as in the literature
PAIRS_FROM = 1000  # rows whose distances the median is taken of


def why_absent(name: str) -> str:
    """Why a data set cannot be read, in words; empty if it can."""
    entry = describe(name)
    return "" if placed(entry) else f"it is not there: {instructions(entry)}"


def load(name: str, seed: int, rows: int | None = None, test_rows: int | None = None) -> Split:
    """Training and test rows as they are, at most so many of each; the seed chooses the split and draws the rows."""
    random = np.random.default_rng(seed)
    X, y, X_test, y_test = load_split(name, split=True, seed=seed)
    if describe(name).split == "random":
        random.random(len(y) + len(y_test))  # which drew the split
    if name in LOGARITHMIC:
        y, y_test = np.log(y), np.log(y_test)
    kept, held = (random.permutation(len(part))[:most] for part, most in ((y, rows), (y_test, test_rows)))
    return Split(X[kept], y[kept], X_test[held], y_test[held])


def development_file(name: str) -> Path:
    """Where a table lies that constants are chosen on, in the folder that GYRFALCON_DATA names."""
    return Path(os.environ.get("GYRFALCON_DATA", ""), name, "data.npz")


def development(name: str, seed: int) -> Split:
    """One of the splits that came with such a table, or else a fifth of its rows for the test, drawn at random."""
    with np.load(development_file(name)) as file:
        X, y = file["X"].astype(np.float64), file["y"].ravel()
        test = np.random.default_rng(seed).random(len(y)) >= 0.8
        if "test_mask" in file.files:
            test = file["test_mask"][:, seed].astype(bool)
    return Split(X[~test], y[~test], X[test], y[test])


def standardized(split: Split, dtype: Any = np.float64) -> Split:
    """Features, and targets too, with mean zero and variance one over the training rows."""
    X, X_test = _standardize(split.X, split.X_test)
    y, y_test = _standardize(split.y, split.y_test)
    return Split(*(part.astype(dtype) for part in (X, y, X_test, y_test)))


def encoded(split: Split, dtype: Any = np.float64) -> Split:
    """Standardized features and one column of ±1 for two classes, one-hot columns for more; y_test stays a column of
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
