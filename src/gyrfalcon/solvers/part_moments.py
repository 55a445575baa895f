"""The moments of the Nyström features in parts of the rows, in one pass over X."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas

from gyrfalcon.linalg.triangles import SingularError, mirror

from .direct import not_positive
from .features import Features, factor_centers, inverse_gram, whitened_rows
from .problem import LeastSquares, as_numpy
from .stopping import Split
from .sums import Center, Sums

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Moments:
    """Σ w z zᵀ over some rows, z = T⁻ᵀk(C, x), and their sums."""

    second: Array
    sums: Sums

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.second + other.second, self.sums + other.sums)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.second - other.second, self.sums - other.sums)

    def centered(self) -> Array:
        """Σ w (z - u)(z - u)ᵀ / Σ w, u the mean of z with an intercept and zero without."""
        u = self.sums.center().features
        return np.asarray(self.second / self.sums.weight - u * u.T)

    def about(self, center: Center) -> Moments:
        """Those of z and y minus a centre."""
        sums, (u, mean) = self.sums, center
        second = self.second - u * sums.features.T - sums.features * u.T + sums.weight * (u * u.T)
        shifted = Sums(
            sums.weight,
            sums.features - sums.weight * u,
            sums.cross - sums.features * mean - u * (sums.targets - sums.weight * mean),
            sums.targets - sums.weight * mean,
            sums.squares - mean * (2 * sums.targets - sums.weight * mean),
        )
        return Moments(second, shifted)


@dataclass(frozen=True)
class PartMoments:
    """T, the moments of every part of the rows, and what is taken out of a penalty for the jitter in T."""

    T: Array
    jitter: float
    rounding: float
    parts: list[Moments]
    split: Split

    @classmethod
    def of(cls, problem: LeastSquares, split: Split) -> PartMoments:
        m, outputs = problem.K.shape[1], problem.Y.shape[1]
        weight = split.weigh(None if problem.weights is None else as_numpy(problem.weights.double())[:, 0])
        try:
            T, jitter, scale = factor_centers(problem, torch.float64)
        except SingularError:
            raise not_positive(problem) from None
        columns = outputs + int(problem.intercept)
        second = [np.zeros((m, m), order="F") for _ in range(split.count)]
        cross = [np.zeros((m, columns), order="F") for _ in range(split.count)]
        gram = [np.zeros((columns, columns), order="F") for _ in range(split.count)]
        for rows, Z, targets in whitened_rows(problem, T):
            with problem.timed("moments"):
                for part in range(split.count):
                    chosen = split.labels[rows] == part
                    if not chosen.any():
                        continue
                    own, side = (Z, targets) if chosen.all() else (Z[:, chosen], targets[chosen])
                    own, side = np.asfortranarray(own), np.asfortranarray(side)
                    second[part] = blas.dsyrk(1.0, own, beta=1.0, c=second[part], overwrite_c=1)
                    cross[part] = blas.dgemm(1.0, own, side, beta=1.0, c=cross[part], overwrite_c=1)
                    gram[part] = blas.dgemm(1.0, side, side, beta=1.0, c=gram[part], trans_a=1, overwrite_c=1)
        for matrix in second:
            mirror(matrix, from_lower=False)
        parts = [Moments(second[k], Sums.of(weight[k], cross[k], gram[k], outputs)) for k in range(split.count)]
        return cls(T, jitter, torch.finfo(torch.float64).eps * scale, parts, split)

    def total(self) -> Moments:
        return sum(self.parts[1:], self.parts[0])

    def folds(self, total: Moments) -> Iterator[tuple[Moments, Moments]]:
        """Moments of the rows to learn from and of those held out, for each part that is; empty ones are left out."""
        for place in self.split.held:
            held = self.parts[place]
            if held.sums.weight > 0:
                yield total - held, held

    def inverse_gram(self) -> Array:
        """T⁻ᵀT⁻¹."""
        return inverse_gram(self.T)

    def features(self, total: Moments) -> Features:
        """Those of all rows, as `direct` makes them."""
        sums = total.sums
        sides = np.concatenate([sums.cross, sums.features], 1) / sums.weight
        return Features(self.T, total.second / sums.weight, sides, self.jitter, self.rounding)
