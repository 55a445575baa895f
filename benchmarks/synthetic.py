"""Data that anyone can make again: smooth functions plus noise, clusters beside noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification

Array = np.ndarray[Any, Any]


class Split(NamedTuple):
    X: Array
    y: Array
    X_test: Array
    y_test: Array


def three_dimensional(n: int, n_test: int, noise: float = 0.15) -> Split:
    """A smooth function on a cube, rounded to float32 but held in float64.

    Whoever computes in float32 may cast it without changing the problem.
    """
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(n + n_test, 3)).astype(np.float32).astype(np.float64)
    y = np.sin(4.5 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.5 * np.sin(7.5 * X[:, 2])
    y += noise * random.standard_normal(len(X))
    y = y.astype(np.float32).astype(np.float64)
    return Split(X[:n], y[:n], X[n:], y[n:])


def oblique(n: int, n_test: int, dtype: Any, d: int = 10, noise: float = 0.2) -> Split:
    """Waves, a product and a step along directions that are not those of the features.

    The signal has variance one or so, and nobody can have a test error below `noise`.
    """
    directions = np.random.default_rng(1).standard_normal((5, d), dtype=np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    random = np.random.default_rng(0)
    X = random.standard_normal((n + n_test, d), dtype=np.float32)
    a, b, c, e, f = (X @ directions.T).T
    y = np.sin(a) + 0.5 * b * c + np.tanh(e) + 0.5 * np.cos(f)
    y += noise * random.standard_normal(len(X), dtype=np.float32)
    X, y = X.astype(dtype, copy=False), y.astype(dtype, copy=False)
    return Split(X[:n], y[:n], X[n:], y[n:])


def rmse(prediction: Array, truth: Array) -> float:
    gap = np.asarray(prediction, dtype=np.float64).ravel() - np.asarray(truth, dtype=np.float64).ravel()
    return float(np.sqrt(np.mean(gap**2)))


def noisy_classes(n: int, n_test: int, rotated: bool = False) -> Split:
    """Ten classes of two clusters each in 30 features, beside 70 features of pure noise of the same spread, in float32.

    With `rotated` the features are turned by a random rotation, so that none is without signal, but 70 directions are.
    """
    X, y = make_classification(
        n + n_test,
        100,
        n_informative=30,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=1.4,
        random_state=0,
        shuffle=False,
    )
    random = np.random.default_rng(0)
    order = random.permutation(len(X))
    X, y = X[order], y[order]
    X = (X - X.mean(0)) / X.std(0)
    if rotated:
        X = X @ np.linalg.qr(random.standard_normal((100, 100)))[0]
    X = X.astype(np.float32)
    return Split(X[:n], y[:n], X[n:], y[n:])
