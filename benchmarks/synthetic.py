"""The synthetic problems of `gyrfalcon.datasets`, split in training and test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.datasets import Split, make_cube, make_noisy_classes, make_oblique

Array = np.ndarray[Any, Any]


def three_dimensional(n: int, n_test: int) -> Split:
    return Split.at(*make_cube(n + n_test), n)


def oblique(n: int, n_test: int, dtype: Any, d: int = 10) -> Split:
    return Split.at(*make_oblique(n + n_test, n_features=d, dtype=dtype), n)


def noisy_classes(n: int, n_test: int, rotated: bool = False) -> Split:
    return Split.at(*make_noisy_classes(n + n_test, rotated=rotated), n)


def rmse(prediction: Array, truth: Array) -> float:
    gap = np.asarray(prediction, dtype=np.float64).ravel() - np.asarray(truth, dtype=np.float64).ravel()
    return float(np.sqrt(np.mean(gap**2)))
