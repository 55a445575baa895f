"""The equations of iterative regularisers, for all rows and for all but those held out, one pass over X for all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import blas

from gyrfalcon.centers.rows import take
from gyrfalcon.data import Source
from gyrfalcon.linalg.triangles import SingularError
from gyrfalcon.matrix import KernelMatrix

from .direct import not_positive
from .features import KEPT_JITTER, factor_centers
from .problem import LeastSquares, as_numpy
from .stopping import Split
from .sums import Sums

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Some of the rows."""

    K: KernelMatrix
    weights: torch.Tensor | None
    sums: Sums


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

    def __init__(self, problem: LeastSquares, split: Split):
        self.problem, self.split = problem, split
        if problem.K.shape[1] == 0:
            raise ValueError("C has no rows: give at least one centre")
        weight = split.weigh(None if problem.weights is None else as_numpy(problem.weights.double())[:, 0])
        try:
            self.T, self.jitter, _ = factor_centers(problem, problem.K.dtype)
        except SingularError:
            raise not_positive(problem) from None
        # The jitter changes the metric, which stopping early hardly notices; as a penalty it would count.
        self._leak = problem.penalty * self.jitter * (1 - KEPT_JITTER)
        self.outputs = problem.Y.shape[1]
        with problem.timed("right_side"):
            self.parts = [self._part(place, weight[place]) for place in range(split.count)]
        total = sum((part.sums for part in self.parts[1:]), self.parts[0].sums)
        self.fits = [total - self.parts[place].sums for place in split.held] + [total]
        self._shares = np.array(
            [[float(part != held) for part in range(split.count)] for held in (*split.held, -1)]
        ) / np.array([[fit.weight] for fit in self.fits])
        self._centers = [fit.center() for fit in self.fits]
        self._mean = np.stack([center.features[:, 0] for center in self._centers], 1)  # u, of shape (m, fits)
        self.right = np.stack([fit.right_side() for fit in self.fits], 1)
        self.zero = np.stack([fit.variance() for fit in self.fits]) + problem.floor

    def _part(self, place: int, weight: float) -> Part:
        problem, K = self.problem, self.problem.K
        rows = np.flatnonzero(self.split.labels == place)
        part = K if self.split.count == 1 else _rows_of(K, rows)
        index = torch.from_numpy(rows).to(K.device)
        weights = None if problem.weights is None else problem.weights[index]
        Y = problem.targets()[index]
        WY = Y if weights is None else weights.double() * Y
        cross = self._pull(as_numpy(part.rmv(WY.to(problem.Y.dtype), dtype=torch.float64)))
        return Part(part, weights, Sums.of(weight, cross, as_numpy(Y.T @ WY), self.outputs))

    def _push(self, v: Array) -> Array:
        """β = T⁻¹v."""
        return np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(v)))

    def _pull(self, beta: Array) -> Array:
        """T⁻ᵀβ."""
        return np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(beta), trans_a=1))

    def images(self, v: Array) -> Array:
        """One pass over X: (Σ w z zᵀ) v of each part, of shape (m, parts, fits, t)."""
        m, K = len(v), self.problem.K
        beta = torch.from_numpy(np.ascontiguousarray(self._push(v.reshape(m, -1)))).to(K.dtype).to(K.device)
        with self.problem.timed("iterate"):
            products = [as_numpy(part.K.gram_mv(beta, part.weights, dtype=torch.float64)) for part in self.parts]
        pulled: Array = self._pull(np.concatenate(products, 1)).reshape(m, len(self.parts), *v.shape[1:])
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
            image -= self._leak * self._pull(self._push(flat)).reshape(v.shape)
        return image

    def objective(self, now: Iterate) -> Array:
        """Of the fit to all rows, by output."""
        left = np.einsum("it,it->t", now.v[:, -1], self.right[:, -1] + now.residual[:, -1])
        return np.asarray(self.zero[-1] - left)

    def error(self, now: Iterate) -> float:
        """The mean squared error over rows that are held out; NaN if none are."""
        squares, weight = 0.0, 0.0
        for fit, place in enumerate(self.split.held):
            held = self.parts[place].sums
            found = held.squared_error(now.v[:, fit], now.images[:, place, fit], self._centers[fit])
            squares, weight = squares + float(found.sum()), weight + held.weight
        return squares / (weight * self.outputs) if weight > 0 else np.nan

    def coefficients(self, v: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """Coefficients and intercept of the fit to all rows."""
        center = self._centers[-1]
        offset = as_numpy(self.problem.mean) + center.targets - center.features[:, 0] @ v
        return torch.from_numpy(np.ascontiguousarray(self._push(v))), torch.from_numpy(offset)

    def safe_step(self) -> float:
        """1 / (max k(x, x) + penalty), at most one over the largest eigenvalue: zᵀz is at most k(x, x)."""
        largest = float(self.problem.K.prior_diagonal().max(initial=0.0)) + self.problem.penalty
        return 1 / largest if largest > 0 else 1.0


def _rows_of(K: KernelMatrix, rows: Array) -> KernelMatrix:
    """Those rows of K; a run of them, if X is read from a source."""
    X = K.X[rows[0] : rows[-1] + 1] if isinstance(K.X, Source) else take(K.X, rows)
    budget = max(1, K.memory_budget * len(rows) // K.shape[0])
    return KernelMatrix(K.kernel, X, K.C, memory_budget=budget, cache=K.plan().cache, devices=K.devices)
