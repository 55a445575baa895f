"""How strongly rare classes are recoded, decided on rows held out from the stream (Camoriano 2017, 7.6.3)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

Array = np.ndarray[Any, Any]

EVERY = 6  # one of so many rows is held out
MOST_ROWS = 2000  # held out and kept: the oldest row of the most frequent class makes room
WELL_REPRESENTED = 1.0  # times the mean number of rows of a class: those with fewer gain by recoding, and have no vote
STRENGTHS = np.linspace(0.0, 1.0, 21)


class HeldOut:
    """Every sixth row of a stream, the latest of them, with the columns of their classes."""

    def __init__(self, width: int):
        self._X = np.zeros((0, width))  # with room for more
        self._columns = np.zeros(0, dtype=np.int64)
        self._arrived = np.zeros(0, dtype=np.int64)  # moments
        self.rows = 0
        self.met = 0
        self.chosen: tuple[Any, float] | None = None  # for which state of the model a strength was chosen, and which

    @property
    def X(self) -> Array:  # noqa: N802
        return self._X[: self.rows]

    @property
    def columns(self) -> Array:
        return self._columns[: self.rows]

    def copy(self) -> HeldOut:
        new = HeldOut.__new__(HeldOut)
        new.__dict__.update(self.__dict__)
        new._X, new._columns, new._arrived = self._X.copy(), self._columns.copy(), self._arrived.copy()
        return new

    def split(self, rows: int) -> Array:
        """Which of the next rows are to be held out."""
        return np.asarray((self.met + 1 + np.arange(rows)) % EVERY == 0)

    def add(self, X: Array, columns: Array, met: int) -> None:
        """Keep these rows, of `met` that were met."""
        for x, column in zip(X, columns, strict=True):
            place = self._place()
            self._X[place], self._columns[place], self._arrived[place] = x, column, self.met
        self.met += met
        self.chosen = None

    def _place(self) -> int:
        """Where the next row goes: to the end, or where the oldest row of the most frequent class was."""
        if self.rows == MOST_ROWS:
            frequent = np.flatnonzero(self.columns == np.bincount(self.columns).argmax())
            return int(frequent[self._arrived[frequent].argmin()])
        if self.rows == len(self._X):
            room = min(MOST_ROWS, max(16, 2 * self.rows))
            for name in ("_X", "_columns", "_arrived"):
                old = getattr(self, name)
                new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
                new[: self.rows] = old
                setattr(self, name, new)
        self.rows += 1
        return self.rows - 1

    def drop(self, column: int) -> None:
        """Forget the rows of a class, whose column is no more."""
        kept = np.flatnonzero(self.columns != column)
        self._X, self._columns, self._arrived = self._X[kept], self._columns[kept], self._arrived[kept]
        self._columns -= self._columns > column
        self.rows, self.chosen = len(kept), None

    def arrays(self, name: str) -> dict[str, Array]:
        """All of it as arrays, under names that begin with the one given."""
        parts = {"X": self.X, "columns": self.columns, "arrived": self._arrived[: self.rows]}
        return {f"{name}.{part}": array.copy() for part, array in parts.items()} | {f"{name}.met": np.array([self.met])}

    @classmethod
    def from_arrays(cls, width: int, classes: int, arrays: dict[str, Array], name: str) -> Self:
        held_out = cls(width)
        X, columns, arrived, met = (arrays[f"{name}.{part}"] for part in ("X", "columns", "arrived", "met"))
        rows = len(columns)
        if X.shape != (rows, width) or arrived.shape != (rows,) or rows > MOST_ROWS or not np.isfinite(X).all():
            raise ValueError(f"{name} does not fit the width {width} of the model")
        if rows and not 0 <= columns.min() <= columns.max() < classes:
            raise ValueError(f"{name} has rows of classes that the model does not know")
        held_out._X, held_out._columns, held_out._arrived = X, columns, arrived
        held_out.rows, held_out.met = rows, int(met[0])
        return held_out


def choose_strength(scores: Array, columns: Array, totals: Array) -> float:
    """The largest α for which well-represented classes are recognized as well as with α = 0, up to a standard error.

    Parameters
    ----------
    scores : array of shape (n, classes)
        Of rows held out, not recoded.
    columns : array of shape (n,)
        Their classes.
    totals : array of shape (classes,)
        The weights of the classes in the model.
    """
    there = totals > 0
    if not there.any():
        return 0.0
    judged = there & (totals >= WELL_REPRESENTED * totals[there].mean())
    rows = judged[columns]
    if not rows.any():
        return 0.0
    scores, columns = scores[rows], columns[rows]
    before = decided(scores, totals, 0.0) == columns
    for strength in STRENGTHS[:0:-1]:
        change = (decided(scores, totals, strength) == columns).astype(float) - before
        if change.mean() >= -np.sqrt(np.square(change).mean() / len(change)):
            return float(strength)
    return 0.0


def recoded(scores: Array, totals: Array, strength: float) -> Array:
    """Scores of classes times Γ^α, Γ being the inverse shares of the classes."""
    if strength == 0:
        return scores
    shares = np.where(totals > 0, totals / max(totals.sum(), np.finfo(float).tiny), 1.0)
    return scores * shares**-strength


def decided(scores: Array, totals: Array, strength: float) -> Array:
    """The column of the class with the highest score, among those that the model has rows of."""
    values = np.where(totals > 0, recoded(scores, totals, strength), -np.inf)
    return np.asarray(values.argmax(1))


def nearest_probabilities(scores: Array, possible: Array) -> Array:
    """The nearest points of the simplex, with zeros for classes that are not possible."""
    out = np.zeros_like(scores)
    inside = scores[:, possible]
    if inside.shape[1] == 0:
        return out
    ordered = -np.sort(-inside, axis=1)
    excess = (ordered.cumsum(1) - 1.0) / np.arange(1, inside.shape[1] + 1)
    last = (ordered > excess).sum(1) - 1
    out[:, possible] = np.maximum(inside - excess[np.arange(len(inside)), last][:, None], 0.0)
    return out
