"""Data that anyone can make again: smooth functions plus noise, clusters beside noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_classification

Array = np.ndarray[Any, Any]


def make_cube(n: int, *, noise: float = 0.15, seed: int = 0) -> tuple[Array, Array]:
    """A smooth function on a cube, y = sin(4.5 x₀) cos(3 x₁) + sin(7.5 x₂) / 2 + noise.

    Rounded to float32 but held in float64: whoever computes in float32 may cast it without changing the problem.

    Parameters
    ----------
    n : int
        Rows.
    noise : float
        Its standard deviation.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> X, y = gf.datasets.make_cube(500)
    >>> X.shape, bool(abs(X).max() <= 1)
    ((500, 3), True)
    """
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n, 3)).astype(np.float32).astype(np.float64)
    y = np.sin(4.5 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.5 * np.sin(7.5 * X[:, 2])
    y += noise * random.standard_normal(n)
    return X, y.astype(np.float32).astype(np.float64)


def make_oblique(
    n: int, *, n_features: int = 10, noise: float = 0.2, dtype: Any = np.float64, seed: int = 0
) -> tuple[Array, Array]:
    """Waves, a product and a step along directions that are not those of the features, the same for every seed.

    y = sin a + b c / 2 + tanh e + cos(f) / 2 + noise, where a to f are projections of Gaussian features. The signal has
    variance one or so, and nobody can have a test error below `noise`.

    Parameters
    ----------
    n : int
        Rows.
    n_features : int
    noise : float
        Its standard deviation.
    dtype : type
        What comes back; it is drawn in float32.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> X, y = gf.datasets.make_oblique(1000)
    >>> X.shape, bool(0.5 < y.var() < 2.0)
    ((1000, 10), True)
    """
    directions = np.random.default_rng(1).standard_normal((5, n_features), dtype=np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, n_features), dtype=np.float32)
    a, b, c, e, f = (X @ directions.T).T
    y = np.sin(a) + 0.5 * b * c + np.tanh(e) + 0.5 * np.cos(f)
    y += noise * random.standard_normal(n, dtype=np.float32)
    return X.astype(dtype, copy=False), y.astype(dtype, copy=False)


def make_noisy_classes(n: int, *, rotated: bool = False, seed: int = 0) -> tuple[Array, Array]:
    """Ten classes of two clusters each in 30 features, beside 70 features of pure noise of the same spread, in float32.

    Parameters
    ----------
    n : int
        Rows.
    rotated : bool
        Whether the features are turned by a random rotation, so that none is without signal, but 70 directions are.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> X, y = gf.datasets.make_noisy_classes(500)
    >>> X.shape, len(set(y.tolist()))
    ((500, 100), 10)
    """
    X, y = make_classification(
        n,
        100,
        n_informative=30,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=1.4,
        random_state=seed,
        shuffle=False,
    )
    random = np.random.default_rng(seed)
    order = random.permutation(n)
    X, y = X[order], y[order]
    X = (X - X.mean(0)) / X.std(0)
    if rotated:
        X = X @ np.linalg.qr(random.standard_normal((100, 100)))[0]
    return X.astype(np.float32), y
