"""Sums over rows, of which the errors of linear models in any part of the rows are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Center(NamedTuple):
    """The mean of the features, as a column, and of the targets; zero without an intercept."""

    features: Array
    targets: Array


@dataclass(frozen=True)
class Sums:
    """Σ w, Σ w z, Σ w z yᵀ, Σ w y and Σ w y² over some rows; what only an intercept needs is zero without."""

    weight: float
    features: Array
    cross: Array
    targets: Array
    squares: Array

    @classmethod
    def of(cls, weight: float, cross: Array, gram: Array, outputs: int) -> Sums:
        """From products of features and targets with targets, of which one more than there are outputs is an
        intercept's column of ones.
        """
        intercept = gram.shape[0] > outputs
        return cls(
            weight,
            cross[:, outputs:] if intercept else np.zeros((len(cross), 1)),
            cross[:, :outputs],
            gram[outputs, :outputs] if intercept else np.zeros(outputs),
            gram.diagonal()[:outputs],
        )

    def _combine(self, other: Sums, sign: int) -> Sums:
        return Sums(*(getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)))

    def __add__(self, other: Sums) -> Sums:
        return self._combine(other, 1)

    def __sub__(self, other: Sums) -> Sums:
        return self._combine(other, -1)

    def center(self) -> Center:
        return Center(self.features / self.weight, self.targets / self.weight)

    def right_side(self) -> Array:
        """Σ w (z - mean)(y - mean)ᵀ / Σ w."""
        center = self.center()
        return np.asarray(self.cross / self.weight - center.features * center.targets)

    def variance(self) -> Array:
        return np.asarray(self.squares / self.weight - self.center().targets ** 2)

    def squared_error(self, V: Array, image: Array, center: Center) -> Array:
        """Σ w (y - zᵀv - b)² for columns v of shape (m, ..., t), with images (Σ w z zᵀ) v, and the intercept b that
        is best for rows with that centre.
        """
        offset = center.targets - np.einsum("i,i...->...", center.features[:, 0], V)
        within = (V * image).sum(0) - 2 * np.einsum("i...t,it->...t", V, self.cross) + self.squares
        rest = self.targets - np.einsum("i,i...->...", self.features[:, 0], V)
        between = offset * (offset * self.weight - 2 * rest)
        return np.asarray(np.maximum(within + between, 0.0))
