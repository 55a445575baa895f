"""Sliding windows without downdating: the factor of the last w rows, made by taking up rows only.

The factor of a moment is that of a short interval of time, of the rows that are in the window throughout it, and a few
rows more. Subtracting rows from a factor, the obvious way, loses digits and never gets them back.
"""

from __future__ import annotations

import threading
from typing import Any, Self

import numpy as np

from .factor import Factor
from .interval_tree import IntervalTree

Array = np.ndarray[Any, Any]


class Window:
    """The factor of the last `length` rows.

    Parameters
    ----------
    penalties : array of shape (d,)
    outputs : int
    length : int
        The number of rows in the window.
    forgetting : float
        By which each row multiplies the weights of those before it.
    """

    def __init__(self, penalties: Array, outputs: int, length: int, forgetting: float = 1.0):
        self.penalties, self.length, self.forgetting = penalties, length, forgetting
        self._X = np.zeros((0, len(penalties)))  # row r stands at r modulo the length, once all places are taken
        self._Y = np.zeros((0, outputs))
        self._weights = np.zeros(0)
        self.seen = 0
        self._begin()

    def _begin(self) -> None:
        self._tree = IntervalTree(self.length, self.forgetting, self._new, self._take_up)
        self._present: tuple[int, Factor] | None = None  # the last moment that somebody asked for, and its factor
        self._lock = threading.Lock()

    def _new(self) -> Factor:
        return Factor(self.penalties, self.outputs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_tree", "_present", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def outputs(self) -> int:
        return int(self._Y.shape[1])

    def copy(self) -> Window:
        new = Window.__new__(Window)
        new.__setstate__(self.__getstate__())
        new._X, new._Y, new._weights = self._X.copy(), self._Y.copy(), self._weights.copy()
        return new

    def add(self, X: Array, Y: Array, weights: Array | None = None) -> None:
        """Take up rows in the order of time."""
        count = len(X)
        weights = np.ones(count) if weights is None else weights
        first = max(0, count - self.length)
        times = np.arange(self.seen + first, self.seen + count)
        self._make_room(min(self.length, self.seen + count))
        places = times % self.length
        self._X[places], self._Y[places], self._weights[places] = X[first:], Y[first:], weights[first:]
        asked = self._present is not None and self._present[0] == self.seen - 1
        self.seen += count
        if count == 1 and asked:  # somebody asks at every moment, and will not wait long
            with self._lock:
                self._tree.work_ahead(self.seen - 1)

    def factor(self) -> Factor:
        """That of the rows in the window; not to be changed."""
        with self._lock:
            now = self.seen - 1
            if self._present is None or self._present[0] != now:
                leaf = self._tree.finished_leaf(now)
                factor = leaf.factor.copy()
                if self.forgetting != 1.0:
                    factor.forget(self.forgetting ** (now - leaf.start))
                old = np.arange(max(0, now - self.length + 1), leaf.first)
                self._take_up_rows(factor, now, np.concatenate([old, np.arange(leaf.end, now + 1)]))
                self._present = now, factor
            return self._present[1]

    def grow(self, count: int) -> None:
        """Add outputs, which were zero in all rows so far."""
        self._Y = np.hstack([self._Y, np.zeros((len(self._Y), count))])
        for factor in self._tree.factors():
            factor.grow(count)
        self._present = None

    def drop(self, output: int) -> None:
        """Remove an output."""
        self._Y = np.delete(self._Y, output, axis=1)
        self._begin()

    def totals(self) -> Array:
        """The sums of the targets in the window, weighted as the factor weighs them."""
        times = self._times()
        weights = self._weights * self.forgetting ** (self.seen - 1.0 - times)
        return np.asarray(weights @ self._Y)

    def _times(self) -> Array:
        places = np.arange(len(self._X))
        return places + (self.seen - 1 - places) // self.length * self.length

    def _take_up(self, factor: Factor, moment: int, first: int, end: int) -> None:
        """Rows from `first` to before `end`, weighted as at a moment."""
        self._take_up_rows(factor, moment, np.arange(max(first, 0), end))

    def _take_up_rows(self, factor: Factor, moment: int, times: Array) -> None:
        if len(times) == 0:
            return
        places = times % self.length
        weights = self._weights[places]
        if self.forgetting != 1.0:
            weights = weights * self.forgetting ** (moment - times.astype(float))
        factor.add(self._X[places], self._Y[places], weights)

    def _make_room(self, rows: int) -> None:
        if rows <= len(self._X):
            return
        room = min(self.length, max(rows, 2 * len(self._X)))
        for name in ("_X", "_Y", "_weights"):
            old = getattr(self, name)
            new = np.zeros((room, *old.shape[1:]))
            new[: len(old)] = old
            setattr(self, name, new)

    def arrays(self, name: str) -> dict[str, Array]:
        """All of it as arrays, under names that begin with the one given; factors are made of the rows again."""
        rows = min(self.seen, self.length)
        parts = {"X": self._X[:rows], "Y": self._Y[:rows], "weights": self._weights[:rows]}
        return {f"{name}.{part}": array.copy() for part, array in parts.items()} | {
            f"{name}.seen": np.array([self.seen], dtype=np.int64)
        }

    @classmethod
    def from_arrays(cls, penalties: Array, length: int, forgetting: float, arrays: dict[str, Array], name: str) -> Self:
        X, Y, weights, seen = (arrays[f"{name}.{part}"] for part in ("X", "Y", "weights", "seen"))
        window = cls(penalties, Y.shape[1], length, forgetting)
        rows = min(int(seen[0]), length)
        if X.shape != (rows, len(penalties)) or Y.shape[0] != rows or weights.shape != (rows,) or rows < 0:
            raise ValueError(f"{name} does not fit the width {len(penalties)} and the window {length} of the model")
        if not all(np.isfinite(array).all() for array in (X, Y, weights)):
            raise ValueError(f"{name} holds numbers that are not finite")
        window._X, window._Y, window._weights, window.seen = X, Y, weights, int(seen[0])
        return window
