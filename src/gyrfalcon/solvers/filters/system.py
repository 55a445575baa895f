"""The equations of iterative regularizers, for all rows and for all but those held out, one pass over X for all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Sums, Whitening
from gyrfalcon.moments.whitening import KEPT_JITTER

from ..problem import LeastSquares
from ..solver import State
from ..stopping import EarlyStopping, Split


class Part(NamedTuple):
    """Some of the rows, and which they are."""

    K: KernelMatrix
    weights: Tensor | None
    rows: Array
    weight: float


class FilterState(State):
    """The whitening of the centers, which rows are held out, and the matrix of each part of the rows."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool, rule: EarlyStopping, seed: int):
        super().__init__(K, weights, intercept)
        if K.shape[1] == 0:
            raise ValueError("C has no rows: give at least one center")
        n = K.shape[0]
        self.split = Split.of(n, rule.validation, seed, contiguous=K.streamed)
        total = self.split.weigh(None if weights is None else as_numpy(weights, np.float64)[:, 0])
        with self.timed("factor"):
            self.whitening = Whitening.of(K, K.dtype)
        self.parts = [self._part(place, total[place]) for place in range(self.split.count)]
        self._largest: float | None = None

    def _part(self, place: int, weight: float) -> Part:
        rows = np.flatnonzero(self.split.labels == place)
        if self.split.count == 1:
            return Part(self.K, self.weights, rows, weight)
        index: slice | Array = slice(int(rows[0]), int(rows[-1]) + 1) if self.K.streamed else rows
        share = max(1, self.K.memory_budget * len(rows) // self.K.shape[0])
        weights = None if self.weights is None else self.weights[torch.from_numpy(rows).to(self.K.device)]
        return Part(self.K.rows(index, memory_budget=share), weights, rows, weight)

    @property
    def largest(self) -> float:
        """The largest k(x, x)."""
        if self._largest is None:
            self._largest = float(self.K.prior_diagonal().max(initial=0.0))
        return self._largest


class Iterate(NamedTuple):
    """v of every fit, of shape (m, fits, t); its images under Σ w z zᵀ of each part; what is left of the equations."""

    v: Array
    images: Array
    residual: Array


class Whitened:
    """(ZᵀWZ/Σw - uuᵀ + penalty·I) v = ZᵀWY/Σw - uȳᵀ, z = T⁻ᵀk(C, x), v = Tβ, TᵀT = k(C, C), for several fits at once.

    There is one fit for each part that is held out, to all rows but those, and a last one to all rows. Every part
    multiplies the coefficients of all fits in one pass over its rows; each fit adds up what its own parts gave, and
    the part it did not see gives its validation error: vᵀ(Σ w z zᵀ)v is all that K has to say about it.
    """

    def __init__(self, problem: LeastSquares, state: FilterState):
        self.problem, self.state, self.split, self.parts = problem, state, state.split, state.parts
        self.whitening, self.jitter = state.whitening, state.whitening.jitter
        # The jitter changes the metric, which stopping early hardly notices; as a penalty it would count.
        self._leak = problem.penalty * self.jitter * (1 - KEPT_JITTER)
        self.outputs = problem.Y.shape[1]
        with problem.timed("right_side"):
            self.sums = [self._sums(part) for part in self.parts]
        total = sum(self.sums[1:], self.sums[0])
        self.fits = [total - self.sums[place] for place in self.split.held] + [total]
        self._shares = np.array(
            [[float(part != held) for part in range(self.split.count)] for held in (*self.split.held, -1)]
        ) / np.array([[fit.weight] for fit in self.fits])
        self._centers = [fit.center() for fit in self.fits]
        self._mean = np.stack([center.features[:, 0] for center in self._centers], 1)  # u, of shape (m, fits)
        self.right = np.stack([fit.right_side() for fit in self.fits], 1)
        self.zero = np.stack([fit.variance() for fit in self.fits]) + problem.floor

    def _sums(self, part: Part) -> Sums:
        """Of the features and the targets of some rows, in one pass."""
        problem, K = self.problem, self.problem.K
        Y = problem.targets()[torch.from_numpy(part.rows).to(K.device)]
        WY = Y if part.weights is None else part.weights.double() * Y
        cross = self.whitening.pull(as_numpy(part.K.rmv(WY.to(problem.Y.dtype), dtype=torch.float64)))
        gram, t = as_numpy(Y.T @ WY), self.outputs
        ones = problem.intercept
        return Sums(
            part.weight,
            cross[:, t:] if ones else np.zeros((len(cross), 1)),
            cross[:, :t],
            gram[t, :t] if ones else np.zeros(t),
            gram.diagonal()[:t],
        )

    def images(self, v: Array) -> Array:
        """One pass over X: (Σ w z zᵀ) v of each part, of shape (m, parts, fits, t)."""
        m, K = len(v), self.problem.K
        beta = (
            torch.from_numpy(np.ascontiguousarray(self.whitening.coefficients(v.reshape(m, -1))))
            .to(K.dtype)
            .to(K.device)
        )
        with self.problem.timed("iterate"):
            products = [as_numpy(part.K.gram_mv(beta, part.weights, dtype=torch.float64)) for part in self.parts]
        pulled: Array = self.whitening.pull(np.concatenate(products, 1)).reshape(m, len(self.parts), *v.shape[1:])
        return pulled

    def start(self) -> Iterate:
        """v = 0."""
        v = np.zeros_like(self.right)
        return Iterate(v, np.zeros((len(v), len(self.parts), *v.shape[1:])), self.right.copy())

    def at(self, v: Array, images: Array) -> Iterate:
        return Iterate(v, images, self.right - self.apply(v, images))

    def apply(self, v: Array, images: Array) -> Array:
        """The matrix of the equations times v."""
        image: Array = np.einsum("ipft,fp->ift", images, self._shares) + self.problem.penalty * v
        image -= self._mean[:, :, None] * np.einsum("if,ift->ft", self._mean, v)
        if self._leak:
            flat = v.reshape(len(v), -1)
            image -= self._leak * self.whitening.pull(self.whitening.coefficients(flat)).reshape(v.shape)
        return image

    def objective(self, now: Iterate) -> Array:
        """Of the fit to all rows, by output."""
        left = np.einsum("it,it->t", now.v[:, -1], self.right[:, -1] + now.residual[:, -1])
        return np.asarray(self.zero[-1] - left)

    def error(self, now: Iterate) -> float:
        """The mean squared error over rows that are held out; NaN if none are."""
        squares, weight = 0.0, 0.0
        for fit, place in enumerate(self.split.held):
            held = self.sums[place]
            found = held.squared_error(now.v[:, fit], now.images[:, place, fit], self._centers[fit])
            squares, weight = squares + float(found.sum()), weight + held.weight
        return squares / (weight * self.outputs) if weight > 0 else np.nan

    def coefficients(self, v: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """Coefficients and intercept of the fit to all rows."""
        center = self._centers[-1]
        offset = as_numpy(self.problem.mean) + center.targets - center.features[:, 0] @ v
        return torch.from_numpy(np.ascontiguousarray(self.whitening.coefficients(v))), torch.from_numpy(offset)

    def safe_step(self) -> float:
        """1 / (max k(x, x) + penalty), at most one over the largest eigenvalue: zᵀz is at most k(x, x)."""
        largest = self.state.largest + self.problem.penalty
        return 1 / largest if largest > 0 else 1.0
