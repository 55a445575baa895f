"""One pass through rows that are sorted by class: MNIST and handwritten letters; `online_pictures` has CIFAR-10."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import gyrfalcon as gf

from .datasets import why_absent

Array = np.ndarray[Any, Any]

# Chosen on training rows, held out: 4,000 of them, with 6,000 to learn from and 1,000 features.
LENGTH_SCALE, PENALTY = 7.0, 0.1
FEATURES = 2000
ACCURACY = 95.5  # percent, asked of MNIST


def measure(quick: bool) -> dict[str, Any]:
    return {"mnist": _mnist(quick), "omniglot": _omniglot(quick)}


def _mnist(quick: bool) -> dict[str, Any]:
    if why := why_absent("mnist"):
        print(f"\nsorted digits: left out, {why}")
        return {}
    X, y, X_test, y_test = gf.datasets.load("mnist", split=True)
    X, X_test = (X / 255).astype(np.float32), (X_test / 255).astype(np.float32)
    order = np.argsort(y, kind="stable")[:: 20 if quick else 1]
    features = gf.RandomFeatures(n_features=FEATURES, length_scale=LENGTH_SCALE, random_state=0).fit(X[:100])
    model = gf.online.RecursiveClassifier(features, penalty=PENALTY)
    begin = time.process_time()
    model.fit_stream((X[order], y[order]), rows=2000)
    seconds = time.process_time() - begin
    accuracy = 100 * float(np.mean(model.predict(X_test) == y_test))
    met = "met" if accuracy >= ACCURACY else "MISSED"
    print(f"\nMNIST by class, one pass, {FEATURES} random features: {accuracy:.2f} % in {seconds:.0f} CPU-s | {met}")
    return {"accuracy": accuracy, "cpu_seconds": seconds}


def _omniglot(quick: bool) -> dict[str, Any]:
    """Characters that appear one after the other: accuracy among those seen, and time of an update."""
    path = Path(os.environ.get("GYRFALCON_DATA", ""), "omniglot_small1", "data.npz")
    if not path.exists():
        print("\ngrowing characters: left out, omniglot_small1 is not in $GYRFALCON_DATA")
        return {}
    with np.load(path) as data:
        X, y = data["X"].astype(np.float64), data["y"]
    X = X / max(1.0, X.max())
    drawer = np.zeros(len(y), dtype=int)
    for label in np.unique(y):
        drawer[y == label] = np.arange((y == label).sum())
    test = drawer % 4 == 3  # five of twenty drawings
    features = gf.RandomFeatures(n_features=FEATURES, length_scale=10.0, random_state=0).fit(X[:100])
    model = gf.online.RecursiveClassifier(features, penalty=0.1)
    labels = np.unique(y)[:: 8 if quick else 1]
    curve = []
    for count, label in enumerate(labels, 1):
        rows = (y == label) & ~test
        begin = time.perf_counter()
        model.partial_fit(X[rows], y[rows])
        elapsed = (time.perf_counter() - begin) / rows.sum()
        if count % 17 == 0 or count == len(labels):
            seen = test & np.isin(y, labels[:count])
            curve.append((count, 100 * float(np.mean(model.predict(X[seen]) == y[seen])), 1e3 * elapsed))
    print("\nomniglot, classes / accuracy among them / ms for a row: "
          + ", ".join(f"{c} / {a:.1f} % / {ms:.1f}" for c, a, ms in curve))  # fmt: skip
    return {"curve": curve}
