"""One row at a time: the fast way into a recursive model, and out of it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from torch import Tensor

if TYPE_CHECKING:
    from .base import Memory

Array = np.ndarray[Any, Any]


class SingleRowMixin:
    """Adds `learn_one`; what is checked is what a row must be, and nothing else."""

    features_: Any
    n_features_in_: int
    _memory: Memory
    _keys: list[Any] | None  # of dictionaries, in the order of the features
    _latest: tuple[Any, Array, Array]  # features, and the last single row with its design

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Any:
        raise NotImplementedError

    def _prepare(self, targets: Array, *, reset: bool) -> int:
        raise NotImplementedError

    def _ready_outputs(self, outputs: int) -> None:
        raise NotImplementedError

    def _take_up(self, design: Array, targets: Array, weights: Array | None) -> None:
        raise NotImplementedError

    def _design(self, points: Any) -> Array:
        raise NotImplementedError

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn from one row, which has been checked for what it must be and nothing else: the fast way.

        Parameters
        ----------
        x : mapping of str to float, or sequence of floats
            The names of the first mapping are the features; each one after it must have the same.
        y : float, sequence of floats, or label
        """
        if not hasattr(self, "_memory"):
            self._learn(_first_row(x), [y], None, reset=True)
            self._keys = list(x) if isinstance(x, Mapping) else None
            return
        design = self._design_of_one(x)
        targets = self._read_one(y)
        self._ready_outputs(self._prepare(targets, reset=False))
        self._take_up(design, targets, None)

    def _read_one(self, y: Any) -> Array:
        raise NotImplementedError

    def _design_of_one(self, x: Any) -> Array:
        if isinstance(x, Mapping):
            if self._keys is None:
                names = getattr(self, "feature_names_in_", None)
                self._keys = list(x) if names is None else names.tolist()
            if len(x) != len(self._keys):
                raise ValueError(f"x has {len(x)} features, but the model was fitted with {len(self._keys)}")
            try:
                x = itemgetter(*self._keys)(x) if len(self._keys) > 1 else (x[self._keys[0]],)
            except KeyError as error:
                raise ValueError(f"x lacks the feature {error.args[0]!r}, which the model was fitted with") from None
        row = np.asarray(x, dtype=np.float64)
        if row.shape != (self.n_features_in_,):
            raise ValueError(f"x has shape {row.shape}, but the model was fitted with {self.n_features_in_} features")
        if self.features_ is None:
            return self._design(row[None])
        latest = self.__dict__.get("_latest")  # who learns from a row has, as a rule, just predicted it
        if latest is None or latest[0] is not self.features_ or not np.array_equal(latest[1], row):
            latest = self._latest = self.features_, row.copy(), self._design(row[None])
        return latest[2]


def _first_row(x: Any) -> Array:
    """The first row of a stream, as a matrix."""
    values = list(x.values()) if isinstance(x, Mapping) else x
    if isinstance(values, Tensor) or sparse.issparse(values):
        raise TypeError(f"x must be a mapping or a sequence of numbers, got {type(values).__name__}: use partial_fit")
    return np.asarray(values, dtype=np.float64)[None]
