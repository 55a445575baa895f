"""Probabilities from least squares scores: a map with two numbers, fitted to scores of rows that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from gyrfalcon.arrays import AnyPoints, Array

from .left_out import leave_out

if TYPE_CHECKING:
    from .targets import ClassTargets, LabelTargets

FLOOR = 0.01  # what is added to shares before their logarithm is taken; .003 to .03 are as good on development tables
PRIOR = np.array([1.0, 2.0])  # slopes before any row is seen, with a standard deviation of one each
LEAST_SLOPE = 1e-2  # of the linear term, so that no two scores become equal


@dataclass(frozen=True)
class Calibration:
    """Probabilities pₖ ∝ exp(slope · qₖ + log_slope · log(FLOOR + max(qₖ, 0))) of shares qₖ that least squares gave.

    The shares estimate the probabilities, but shrunk towards each other and sometimes outside of [0, 1]. The map
    is the same for all classes and increasing, so the class of the largest score stays the most likely one.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.estimators.calibration import Calibration
    >>> Calibration(slope=1.0, log_slope=2.0).probabilities(np.array([[0.75, 0.25], [1.1, -0.1]])).round(3)
    array([[0.934, 0.066],
           [1.   , 0.   ]])
    """

    slope: float
    log_slope: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(number) and number >= 0 for number in (self.slope, self.log_slope)):
            raise ValueError(f"the slopes of a calibration must be finite and not negative, got {self}")

    def probabilities(self, shares: Array) -> Array:
        """Of each class, of shape (n, k)."""
        logits = self.slope * shares + self.log_slope * _logarithms(shares)
        chances: Array = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        return chances

    @classmethod
    def of(cls, shares: Array, labels: Array, weights: Array) -> Calibration:
        """The most likely slopes, given shares of rows that the fit had not seen, their classes and weights.

        The slopes have a normal prior, which decides where there are few rows and keeps them finite where the classes
        are separable. Weights below one on average are raised to one, so that their unit does not matter.
        """
        weights = at_least_one(weights)
        terms = np.stack([shares, _logarithms(shares)])
        own = terms[:, np.arange(len(labels)), labels]

        def objective(slopes: Array) -> tuple[float, Array]:
            logits = np.tensordot(slopes, terms, 1)
            peak = logits.max(1, keepdims=True)
            chances = np.exp(logits - peak)
            total = chances.sum(1, keepdims=True)
            chances /= total
            value = weights @ (peak[:, 0] + np.log(total[:, 0]) - slopes @ own)
            gradient = (np.einsum("ink,nk->in", terms, chances) - own) @ weights
            away = slopes - PRIOR
            return float(value + away @ away / 2), gradient + away

        found = minimize(objective, PRIOR, jac=True, method="L-BFGS-B", bounds=[(LEAST_SLOPE, None), (0.0, None)])
        return cls(*map(float, found.x))


class Judged(NamedTuple):
    """Shares of rows that were left out, which of them is true, and weights."""

    shares: Array
    labels: Array
    weights: Array


def judged_rows(
    points: AnyPoints,
    labels: Array,
    weights: Array | None,
    targets: ClassTargets | LabelTargets,
    **fit: Any,
) -> Judged | None:
    """What a least squares fit says of some of its rows, each left out in turn; None if they are too few.

    The rows are a sample that the model's kernel, noise and, if there are fewer than rows, its centers are fitted to
    again. Which rows depends on what they are if there are few, and else on their order too.

    Parameters
    ----------
    points : array, tensor or CSR of shape (n, d)
    labels : array of shape (n,), or (n, t) if rows have several
    weights : array of shape (n,), optional
    targets : ClassTargets or LabelTargets
    **fit
        Kernel, centers, noise and intercept, as for `leave_out`.
    """

    def encode(rows: Array) -> Array:
        return targets.encode(labels[rows])

    found = leave_out(points=points, encode=encode, weights=weights, **fit)
    return None if found is None else Judged(*targets.judged(found.outputs, labels[found.rows], found.weights))


def at_least_one(weights: Array) -> Array:
    """Weights below one on average are raised to one, so that their unit does not matter."""
    return np.asarray(weights * max(1.0, len(weights) / weights.sum()))


def _logarithms(shares: Array) -> Array:
    return np.asarray(np.log(FLOOR + np.maximum(shares, 0.0)))
