"""The rows that tuning looks at, and the problems that they pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import AnyPoints, as_numpy, device_of, in_double
from gyrfalcon.centers.rows import draw, take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares

Array = np.ndarray[Any, Any]

SHUFFLE_SEED = 0  # of the order in which rows are searched and held out: the same rows, the same result
EXACT_ENTRIES = 3e7  # of K, beyond which traces are estimated


@dataclass(frozen=True)
class Data:
    """What there is to learn from: points, targets, weights. Parts have targets of mean zero and unit variance."""

    points: AnyPoints
    Y: Array
    weights: Array | None
    mean: Any = 0.0  # of Y
    spread: float = 1.0
    floor: Any = 0.0  # what merging rows took out of the mean square of Y

    def merged(self) -> Data:
        """One row for each point, so that a repeated row is what a weighted one is."""
        points, group = center_rules.distinct(self.points, self.weights)
        if points.shape[0] == self.points.shape[0] and self.weights is None:
            return self
        Y, weights, floor = center_rules.merge(self.Y, self.weights, group, points.shape[0])
        return Data(points, Y, weights, floor=floor)

    def part(self, count: int, random: np.random.Generator) -> Data:
        """At most so many rows, drawn among those of positive weight."""
        n = self.points.shape[0]
        if n <= count and (self.weights is None or (self.weights > 0).all()):
            points = self.points.to_array() if isinstance(self.points, Source) else self.points
            return Data(points, (self.Y - self.mean) / self.spread, self.weights, floor=self.floor)
        if self.weights is None:
            rows = np.sort(random.choice(n, count, replace=False, shuffle=False))
        else:
            rows = draw((self.weights > 0).astype(float), count, random)
        return self.at(rows)

    def at(self, rows: Array) -> Data:
        Y = (self.Y[rows] - self.mean) / self.spread
        weights = None if self.weights is None else self.weights[rows]
        return Data(take(self.points, rows), Y, weights, floor=self.floor)

    def problem(self, kernel: Kernel, C: AnyPoints | None, noise: float, memory_budget: int) -> LeastSquares:
        """With every row as a center if C is None."""
        X = self.points
        if X.shape[0] * (X if C is None else C).shape[0] <= EXACT_ENTRIES:  # more stay in their type: Stochastic can
            X, C = (p if p is None else in_double(p) for p in (X, C))
        device, total = device_of(X), float(len(self.Y) if self.weights is None else self.weights.sum())
        centers = None if C is None else Points(C)
        K = KernelMatrix(kernel, Points(X), centers, memory_budget=memory_budget, cache=False)
        Y = torch.from_numpy(np.ascontiguousarray(self.Y)).to(device, K.dtype)
        w = None if self.weights is None else torch.from_numpy(self.weights)[:, None].to(device, K.dtype)
        return LeastSquares(K, Y, noise / total, w, floor=self.floor)


def noise_of(problem: LeastSquares) -> float:
    """The penalty times the sum of the weights, which means the same whatever part of the rows there is."""
    return problem.penalty * problem.total_weight


def shuffled(points: AnyPoints) -> Array:
    """The numbers of rows, in an order that depends on what they are, not on where they stand nor on units."""
    random = np.random.default_rng(SHUFFLE_SEED)
    direction = random.normal(size=points.shape[1])
    if sparse.issparse(points):
        keys = points @ direction
    else:
        halves = as_numpy(points, np.float64) / 2  # the range itself may overflow
        low = halves.min(0)
        span = halves.max(0) - low
        keys = ((halves - low) / np.where(span > 0, span, 1.0)) @ direction
    return np.argsort(keys, kind="stable")[random.permutation(points.shape[0])]
