"""Codings: classes as vectors that a loss can compare predictions with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Coding(ABC):
    """k classes, numbered from zero, as k vectors; a prediction is decoded to the class of largest inner product.

    Examples
    --------
    >>> from gyrfalcon.losses import Coding, OneHot, Simplex
    >>> all(isinstance(coding, Coding) for coding in (OneHot(3), Simplex(3)))
    True
    >>> Simplex(3).decode(Simplex(3).encode([2, 0, 1])).tolist()
    [2, 0, 1]
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ValueError(f"k must be at least two classes, got {self.k}")

    @cached_property
    @abstractmethod
    def codes(self) -> Array:
        """The vector of each class, one a row."""

    @property
    def outputs(self) -> int:
        return int(self.codes.shape[1])

    def encode(self, indices: Any) -> Array:
        """The codes of classes, of shape (n, outputs)."""
        indices = np.asarray(indices)
        if indices.size and (indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= self.k):
            raise ValueError(f"indices must be whole numbers from 0 to {self.k - 1}")
        return np.asarray(self.codes[indices.astype(np.intp)])

    def decode(self, F: Any) -> Array:
        """The classes of predictions of shape (n, outputs)."""
        return np.asarray(np.argmax(np.asarray(F) @ self.codes.T, axis=1))


@dataclass(frozen=True)
class OneHot(Coding):
    """Class i as the i-th unit vector of k.

    >>> from gyrfalcon.losses import OneHot
    >>> OneHot(3).encode([2, 0])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    @cached_property
    def codes(self) -> Array:
        return np.eye(self.k)


@dataclass(frozen=True)
class Simplex(Coding):
    """k unit vectors of k - 1 dimensions with inner products -1/(k - 1): -1 and 1 for two classes.

    >>> from gyrfalcon.losses import Simplex
    >>> Simplex(2).encode([0, 1])
    array([[-1.],
           [ 1.]])
    >>> (Simplex(3).codes @ Simplex(3).codes.T).round(12)
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """

    @cached_property
    def codes(self) -> Array:
        codes = np.zeros((self.k, self.k - 1))
        rest = 1.0  # the length that is left for the coordinates to come
        for i in range(self.k - 1):
            codes[i, i] = -rest
            codes[i + 1 :, i] = rest / (self.k - 1 - i)
            rest *= np.sqrt(1 - 1 / (self.k - 1 - i) ** 2)
        return codes
