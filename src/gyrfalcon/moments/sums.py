"""Sums over rows, of which the errors of linear models in any part of the rows are made."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from gyrfalcon.arrays import Array


class Center(NamedTuple):
    """The mean of the features, as a column, and of the targets; zero without an intercept."""

    features: Array
    targets: Array


@dataclass(frozen=True)
class Sums:
    """Σ w, Σ w z, Σ w z yᵀ, Σ w y and Σ w y² over some rows.

    Those of all rows less those of some are those of the others, so that leaving rows out costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.moments import Sums
    >>> z, y = np.array([[1.0, 2.0]]), np.array([[3.0], [5.0]])
    >>> sums = Sums.of(np.ones(2), z, y)
    >>> sums.weight, sums.cross.tolist(), (sums + sums - sums).squares.tolist()
    (2.0, [[13.0]], [34.0])
    """

    weight: float
    features: Array
    cross: Array
    targets: Array
    squares: Array

    @classmethod
    def of(cls, weights: Array, Z: Array, Y: Array) -> Sums:
        """Of features as columns, of shape (m, rows), targets of shape (rows, t) and weights of shape (rows,)."""
        weighted = weights[:, None] * Y
        sides = np.asfortranarray(np.column_stack([weighted, weights]))
        products = blas.dgemm(1.0, Z, sides) if Z.size else np.zeros((len(Z), sides.shape[1]))
        return cls(
            float(weights.sum()),
            products[:, -1:],
            products[:, :-1],
            weighted.sum(0),
            np.einsum("ij,ij->j", Y, weighted),
        )

    def _combine(self, other: Sums, sign: int) -> Sums:
        return Sums(*(getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)))

    def __add__(self, other: Sums) -> Sums:
        return self._combine(other, 1)

    def __sub__(self, other: Sums) -> Sums:
        return self._combine(other, -1)

    def scaled(self, factor: float) -> Sums:
        """Those of weights that are multiplied by a factor."""
        return Sums(*(factor * getattr(self, f.name) for f in fields(self)))

    def without_intercept(self) -> Sums:
        """The same for models that have no intercept: as if features and targets had mean zero."""
        return replace(self, features=np.zeros_like(self.features), targets=np.zeros_like(self.targets))

    def moved(self, shift: Array) -> Sums:
        """Those of targets y + shift."""
        return replace(
            self,
            cross=self.cross + self.features * shift,
            targets=self.targets + self.weight * shift,
            squares=self.squares + shift * (2 * self.targets + self.weight * shift),
        )

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
        is best for rows with that center.
        """
        offset = center.targets - np.einsum("i,i...->...", center.features[:, 0], V)
        within = (V * image).sum(0) - 2 * np.einsum("i...t,it->...t", V, self.cross) + self.squares
        rest = self.targets - np.einsum("i,i...->...", self.features[:, 0], V)
        between = offset * (offset * self.weight - 2 * rest)
        return np.asarray(np.maximum(within + between, 0.0))
