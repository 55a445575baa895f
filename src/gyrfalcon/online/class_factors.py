"""Exact rebalancing of the loss: one triangular factor for each class, weighted when the model is solved."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .factor import Factor

Array = np.ndarray[Any, Any]


class ClassFactors:
    """The rows of each class in a factor of their own.

    The rebalanced solution (Camoriano 2017, 7.22) weighs a row by n/nₜ, the inverse share of its class, which changes
    with every row. Σₜ (n/nₜ) Gₜ with one gram matrix Gₜ for each class is still a function of what has been seen, and
    the factors of the Gₜ make up its factor. Memory is T times that of one factor.
    """

    def __init__(self, penalties: Array, forgetting: float = 1.0):
        self.penalties, self.forgetting = penalties, forgetting
        self._factors: list[Factor] = []
        self._times: list[int] = []  # moments at which the factors were discounted last
        self.seen = 0
        self._whole: Factor | None = None

    @property
    def outputs(self) -> int:
        return len(self._factors)

    def copy(self) -> ClassFactors:
        new = ClassFactors(self.penalties, self.forgetting)
        new._factors, new._times = [factor.copy() for factor in self._factors], list(self._times)
        new.seen, new._whole = self.seen, self._whole
        return new

    def add(self, X: Array, columns: Array, weights: Array | None = None) -> None:
        """Take up rows of the classes of these numbers, in the order of time."""
        moments = self.seen + 1 + np.arange(len(X))
        for column in np.unique(columns):
            rows = np.flatnonzero(columns == column)
            latest = int(moments[rows[-1]])
            self._discount(column, latest)
            ages = self.forgetting ** (latest - moments[rows].astype(float))
            weighted = ages if weights is None else ages * weights[rows]
            self._factors[column].add(X[rows], np.ones((len(rows), 1)), weighted)
        self.seen += len(X)
        self._whole = None

    def factor(self) -> Factor:
        """That of all rows, weighted by the inverse shares of their classes, with the penalty; not to be changed."""
        if self._whole is None:
            totals, ages = self.totals(), self._ages()
            whole = Factor(self.penalties, self.outputs)
            for column, factor in enumerate(self._factors):
                if totals[column] > 0:
                    spread = factor.spread(np.array([column]), self.outputs)
                    whole.absorb(spread, ages[column] * totals.sum() / totals[column])
            self._whole = whole
        return self._whole

    def totals(self) -> Array:
        """The weight of each class."""
        return np.array([factor.weight for factor in self._factors]) * self._ages()

    def _ages(self) -> Array:
        """What the factors are to be multiplied by as of now."""
        return self.forgetting ** (self.seen - np.array(self._times, dtype=float))

    def grow(self, count: int) -> None:
        """Add classes."""
        for _ in range(count):
            self._factors.append(Factor(np.zeros(len(self.penalties)), 1))
            self._times.append(self.seen)
        self._whole = None

    def drop(self, column: int) -> None:
        """Forget a class and its rows."""
        del self._factors[column], self._times[column]
        self._whole = None

    def merge(self, other: ClassFactors, columns: Array) -> None:
        """Take up the rows of another, whose classes have these numbers here."""
        for column, factor, age in zip(columns, other._factors, other._ages(), strict=True):
            self._discount(column, self.seen)
            self._factors[column].absorb(factor, age)
        self._whole = None

    def _discount(self, column: int, moment: int) -> None:
        if self.forgetting != 1.0 and moment > self._times[column]:
            self._factors[column].forget(self.forgetting ** (moment - self._times[column]))
        self._times[column] = moment

    def arrays(self, name: str) -> dict[str, Array]:
        """All of it as arrays, under names that begin with the one given."""
        found = {f"{name}.times": np.array(self._times, dtype=np.int64), f"{name}.seen": np.array([self.seen])}
        for column, factor in enumerate(self._factors):
            found |= factor.arrays(f"{name}.{column}")
        return found

    @classmethod
    def from_arrays(cls, penalties: Array, forgetting: float, arrays: dict[str, Array], name: str) -> Self:
        factors = cls(penalties, forgetting)
        factors._times = [int(moment) for moment in arrays[f"{name}.times"]]
        factors.seen = int(arrays[f"{name}.seen"][0])
        nothing = np.zeros(len(penalties))
        factors._factors = [Factor.from_arrays(nothing, arrays, f"{name}.{c}") for c in range(len(factors._times))]
        if any(factor.outputs != 1 for factor in factors._factors):
            raise ValueError(f"{name} does not hold one factor for each class")
        return factors
