"""What is tuned, as one vector: logarithms of the penalty and of positive kernel parameters, then centers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array, as_kind, as_numpy
from gyrfalcon.kernels import Kernel
from gyrfalcon.solvers import LeastSquares

from .objectives import Gradient
from .optimizers import Point

PENALTIES = (1e-7, 1e6)  # times the sum of the weights
LARGEST_EXPONENT = 500.0  # whose exponential is finite
REACH = 1e4  # how far a positive parameter may move from where it starts, as a factor


class Parameters:
    """θ, and the problem that it stands for.

    Parameters
    ----------
    problem : LeastSquares
        Where to start.
    penalty, kernel, centers : bool
        What to tune.
    per_feature : bool
        Whether the entries of a vector, as length scales are, move one by one, or all by the same factor.
    free : bool
        Whether to tune parameters of any sign too, such as the matrix of a `Mapped` kernel.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> gf.tuning.Parameters(problem, centers=True).logarithmic
    ['length_scale']
    """

    def __init__(
        self,
        problem: LeastSquares,
        *,
        penalty: bool = True,
        kernel: bool = True,
        centers: bool = False,
        per_feature: bool = True,
        free: bool = True,
    ):
        if centers and problem.K.sparse:
            raise ValueError("centers: tuning them needs dense points")
        self.problem, self.penalty, self.centers = problem, penalty, centers
        values = {name: as_array(value) for name, value in problem.K.kernel.parameters().items()}
        how = problem.K.kernel.tunable() if kernel else {}
        self.logarithmic = [n for n, v in values.items() if how.get(n) == "logarithmic" and (v > 0).all()]
        self.free = [n for n in values if free and how.get(n) == "free"]
        self._values = {name: values[name] for name in (*self.logarithmic, *self.free)}
        self._single = set(self.logarithmic) if not per_feature else set()  # factors, not values, are tuned
        starts = {n: np.zeros(1) if n in self._single else np.log(values[n]).ravel() for n in self.logarithmic}
        bounds = np.array(PENALTIES) / problem.total_weight
        parts = [np.log(np.clip([problem.penalty], *bounds))] if penalty else []
        parts += [*starts.values(), *(values[name].ravel() for name in self.free)]
        low = [np.log(bounds[:1])] if penalty else []
        high = [np.log(bounds[1:])] if penalty else []
        low += [start - math.log(REACH) for start in starts.values()]
        high += [start + math.log(REACH) for start in starts.values()]
        priced = sum(start.size for start in starts.values())
        unbounded = sum(values[name].size for name in self.free)
        if centers:
            C = as_array(problem.K.centers)
            spread = C.std(0)
            self._unit = np.where(spread > 0, spread, 1.0)
            parts.append((C / self._unit).ravel())
            unbounded += C.size
        low.append(np.full(unbounded, -np.inf))
        high.append(np.full(unbounded, np.inf))
        self.start = np.concatenate([np.zeros(0), *parts])
        places = np.arange(len(self.start)) - int(penalty)
        self._priced = (places >= 0) & (places < priced)
        self.low, self.high = np.concatenate(low), np.concatenate(high)

    def at(self, theta: Array) -> LeastSquares:
        """The problem with the penalty, kernel and centers of θ."""
        penalty, kernel, C = self.read(theta)
        K = self.problem.K
        centers = None if C is None else as_kind(C, K.centers)
        return self.problem.at(kernel=kernel, penalty=penalty, C=centers)

    def read(self, theta: Array) -> tuple[float, Kernel, Array | None]:
        """Penalty, kernel and, if they are tuned, centers."""
        at, values = 0, {}
        penalty = self.problem.penalty
        if self.penalty:
            penalty, at = float(np.exp(theta[0])), 1
        for name, value in self._values.items():
            size = 1 if name in self._single else value.size
            part = theta[at : at + size]
            if name in self._single:
                values[name] = (value * np.exp(part)).tolist() if value.ndim else float(value * np.exp(part[0]))
            else:
                values[name] = (np.exp(part) if name in self.logarithmic else part).reshape(value.shape).tolist()
            at += size
        kernel = self.problem.K.kernel.with_parameters(values)
        if not self.centers:
            return penalty, kernel, None
        return penalty, kernel, theta[at:].reshape(self.problem.K.centers.shape) * self._unit

    def gradient(self, theta: Array, gradient: Gradient) -> Array:
        """The derivative in θ."""
        at, parts = 0, []
        if self.penalty:
            parts.append(np.atleast_1d(gradient.penalty * np.exp(theta[0])))
            at = 1
        for name, value in self._values.items():
            inner = np.asarray(gradient.parameters.get(name, np.zeros_like(value))).ravel()
            if name in self._single:
                parts.append(np.atleast_1d(inner @ value.ravel() * np.exp(theta[at])))
            else:
                there = theta[at : at + inner.size]
                parts.append(inner * np.exp(there) if name in self.logarithmic else inner)
            at += parts[-1].size
        if self.centers:
            assert gradient.centers is not None
            parts.append((gradient.centers * self._unit).ravel())
        return np.concatenate([np.zeros(0), *parts])

    def shrunk(self, theta: Array, point: Point, price: float) -> Point:
        """The value times exp(price Σ (θ - start)²), summed over logarithms of kernel parameters, and its gradient."""
        moves = np.where(self._priced, theta - self.start, 0.0)
        factor = math.exp(min(price * float(moves @ moves), LARGEST_EXPONENT))
        value = point.value * factor
        gradient = factor * point.gradient + 2 * price * value * moves
        return Point(value, gradient, {**point.details, "shrinkage": value - point.value})


def as_array(value: Any) -> Array:
    return as_numpy(value, np.float64)


def length_scales(kernel: Kernel) -> dict[str, Array]:
    """By the names of its parameters."""
    return {name: as_array(value) for name, value in kernel.parameters().items() if _last(name) == "length_scale"}


def rescaled(kernel: Kernel, factor: float) -> Kernel:
    """With every length scale times a factor."""
    return kernel.with_parameters({name: (factor * value).tolist() for name, value in length_scales(kernel).items()})


def _last(name: str) -> str:
    return name.rpartition(".")[2]
