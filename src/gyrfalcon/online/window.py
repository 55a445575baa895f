"""Sliding windows without downdating: the factor of the last w rows, made by taking up rows only.

Time is cut in halves, again and again. A node of this tree, an interval of time, has the factor of all rows that are in
the window throughout it, which are those of its parent and some more. The factor of a moment is that of its leaf. Along
one pass through the tree each row is taken up by about 2 log₂ w nodes, in blocks, and only the nodes between the root
and the present leaf are kept. Subtracting rows from a factor, the obvious way, loses digits and never gets them back.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .factor import Factor

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
        self._path: list[tuple[int, int, Factor]] = []  # nodes (first moment, end, factor), the root first

    @property
    def outputs(self) -> int:
        return int(self._Y.shape[1])

    def copy(self) -> Window:
        new = Window.__new__(Window)
        new.__dict__.update(self.__dict__)
        new._X, new._Y, new._weights = self._X.copy(), self._Y.copy(), self._weights.copy()
        new._path = list(self._path)  # factors of nodes are not changed once they are made
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
        self.seen += count
        now = self.seen - 1
        while self._path and not self._path[-1][0] <= now < self._path[-1][1]:
            self._path.pop()

    def factor(self) -> Factor:
        """That of the rows in the window; not to be changed."""
        now = self.seen - 1
        if not self._path:
            start = now // self.length * self.length
            factor = Factor(self.penalties, self.outputs)
            self._take_up(factor, start, start, start + 1)
            self._path.append((start, start + self.length, factor))
        while True:
            start, end, factor = self._path[-1]
            if end - start == 1:
                return factor
            middle = (start + end) // 2
            child = factor.copy()
            if now < middle:  # rows that leave in the second half of the parent's time
                self._take_up(child, start, middle - self.length, end - self.length)
                self._path.append((start, middle, child))
            else:  # rows that came in the first half
                if self.forgetting != 1.0:
                    child.forget(self.forgetting ** (middle - start))
                self._take_up(child, middle, start + 1, middle + 1)
                self._path.append((middle, end, child))

    def grow(self, count: int) -> None:
        """Add outputs, which were zero in all rows so far."""
        self._Y = np.hstack([self._Y, np.zeros((len(self._Y), count))])
        path, self._path = self._path, []
        for start, end, factor in path:
            child = factor.copy()
            child.grow(count)
            self._path.append((start, end, child))

    def drop(self, output: int) -> None:
        """Remove an output."""
        self._Y = np.delete(self._Y, output, axis=1)
        self._path = []

    def totals(self) -> Array:
        """The sums of the targets in the window, weighted as the factor weighs them."""
        times = self._times()
        weights = self._weights * self.forgetting ** (self.seen - 1.0 - times)
        return np.asarray(weights @ self._Y)

    def _times(self) -> Array:
        places = np.arange(len(self._X))
        return places + (self.seen - 1 - places) // self.length * self.length

    def _take_up(self, factor: Factor, now: int, first: int, end: int) -> None:
        """Rows of the moments from `first` to `end`, weighted as at a moment."""
        times = np.arange(max(first, 0), end)
        if len(times) == 0:
            return
        places = times % self.length
        weights = self._weights[places]
        if self.forgetting != 1.0:
            weights = weights * self.forgetting ** (now - times.astype(float))
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
