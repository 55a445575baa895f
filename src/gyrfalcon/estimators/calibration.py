"""Probabilities from least squares scores: a map with two numbers, fitted to scores of rows that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize

from gyrfalcon.arrays import AnyPoints, Array, as_kind
from gyrfalcon.centers import distinct, merge
from gyrfalcon.centers.rows import on_host, take
from gyrfalcon.data import Points
from gyrfalcon.kernels import Kernel
from gyrfalcon.linalg.triangles import cholesky_with_jitter
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.partition.leaves import ridged
from gyrfalcon.threads import one_thread_each

from .choices import SMALL

if TYPE_CHECKING:
    from .targets import ClassTargets, LabelTargets

FLOOR = 0.01  # what is added to shares before their logarithm is taken; .003 to .03 are as good on development tables
PRIOR = np.array([1.0, 2.0])  # slopes before any row is seen, with a standard deviation of one each
LEAST_SLOPE = 1e-2  # of the linear term, so that no two scores become equal
EXACT_ROWS = 1200  # that are left out in turn where each of them is a center
FEATURE_ROWS = 10_000  # and at most where there are fewer centers than that
FEATURE_OPERATIONS = 4e9  # which the fit of those may take
SEED = 0


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
        weights = weights * max(1.0, len(weights) / weights.sum())
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


@one_thread_each
def calibrate(
    kernel: Kernel,
    centers: AnyPoints | None,
    points: AnyPoints,
    labels: Array,
    weights: Array | None,
    targets: ClassTargets | LabelTargets,
    *,
    noise: float,
    intercept: bool,
) -> Calibration | None:
    """A calibration for a least squares fit, from some of its rows, each left out in turn; None if they are too few.

    The rows are a sample that the model's kernel, noise and, if there are fewer than rows, its centers are fitted to
    again. Which rows depends on what they are if there are few, and else on their order too.

    Parameters
    ----------
    kernel : Kernel
    centers : array, tensor or CSR of shape (m, d), optional
        None if every row is one.
    points : array, tensor or CSR of shape (n, d)
    labels : array of shape (n,), or (n, t) if rows have several
    weights : array of shape (n,), optional
    targets : ClassTargets or LabelTargets
    noise : float
        The penalty times the sum of all weights.
    intercept : bool
        Whether the fit has one.
    """
    if centers is not None and centers.shape[0] >= min(EXACT_ROWS, points.shape[0]):
        centers = None
    rows = _sample(points, weights, EXACT_ROWS if centers is None else _feature_rows(centers.shape[0]))
    weights = np.ones(len(rows)) if weights is None else weights[rows]
    X, group = distinct(on_host(take(points, rows)), weights)
    if X.shape[0] < 2:
        return None
    Y = targets.encode(labels[rows])
    means, summed, _ = merge(Y, weights, group, X.shape[0])
    if centers is None:
        fitted, left = _with_all_rows(kernel, X, means, summed, noise, intercept=intercept)
    else:
        fitted, left = _with_centers(kernel, X, as_kind(centers, X), means, summed, noise, intercept=intercept)
    # Of a row that is there w times, or has weight w, one copy is left out.
    others = np.maximum(summed, 1.0) - 1
    factor = (1 - left) / np.maximum(others + left, np.finfo(float).tiny)
    outputs = fitted[group] - factor[group, None] * (Y - fitted[group])
    return Calibration.of(*targets.judged(outputs, labels[rows], weights))


def _feature_rows(centers: int) -> int:
    return int(np.clip(FEATURE_OPERATIONS / (3 * centers**2), EXACT_ROWS, FEATURE_ROWS))


def _sample(points: AnyPoints, weights: Array | None, count: int) -> Array:
    """Rows of positive weight. Of few rows, so many different points with all of their copies."""
    random = np.random.default_rng(SEED)
    rows = np.arange(points.shape[0]) if weights is None else np.flatnonzero(weights)
    if points.shape[0] > SMALL:
        return rows if len(rows) <= count else np.sort(random.choice(rows, count, replace=False))
    group = distinct(on_host(points), weights)[1]
    chosen = random.permutation(group.max() + 1)[:count]
    return rows[np.isin(group[rows], chosen)]


def _with_all_rows(
    kernel: Kernel, X: AnyPoints, Y: Array, weights: Array, noise: float, *, intercept: bool
) -> tuple[Array, Array]:
    """The fit at rows that are all centers, and for each what of a change of its target the fit does not follow.

    Y - f = noise W⁻¹AY, with A = S⁻¹ - S⁻¹11ᵀS⁻¹ / 1ᵀS⁻¹1 and S = K + noise W⁻¹.
    """
    root = np.sqrt(weights)[:, None]
    matrix = ridged(KernelMatrix(kernel, Points(X)), root, noise)
    cholesky_with_jitter(matrix, 0.0)
    inverse = lapack.dpotri(matrix, lower=0, overwrite_c=1)[0]
    A = np.triu(inverse)
    A += np.triu(inverse, 1).T
    A *= root
    A *= root.T
    if intercept:
        ones = A.sum(1)
        A -= np.outer(ones / ones.sum(), ones)
    unit = noise / weights
    return Y - unit[:, None] * (A @ Y), np.clip(unit * A.diagonal(), 0.0, 1.0)


def _with_centers(
    kernel: Kernel, X: AnyPoints, C: AnyPoints, Y: Array, weights: Array, noise: float, *, intercept: bool
) -> tuple[Array, Array]:
    """The same with fewer centers, by features Z with ZZᵀ = K k(C, C)⁻¹ Kᵀ: f = Z(ZᵀWZ + noise)⁻¹ZᵀWY."""
    between = np.asfortranarray(KernelMatrix(kernel, Points(C)).between_centers())
    cholesky_with_jitter(between, np.finfo(float).eps * float(between.diagonal().max()) * len(between))
    K = KernelMatrix(kernel, Points(X), Points(C)).wide_block(slice(0, X.shape[0]))
    Z = solve_triangular(between, np.asarray(K).T, trans=1, overwrite_b=True, check_finite=False).T
    ridge = np.full(len(between), noise)
    if intercept:
        Z, ridge = np.concatenate([Z, np.ones((len(Z), 1))], 1), np.append(ridge, 0.0)
    second = np.asfortranarray((weights[:, None] * Z).T @ Z)
    np.fill_diagonal(second, second.diagonal() + ridge)
    cholesky_with_jitter(second, 0.0)
    V = solve_triangular(second, Z.T, trans=1, overwrite_b=True, check_finite=False).T
    followed = weights * np.einsum("ij,ij->i", V, V)
    return V @ (V.T @ (weights[:, None] * Y)), np.clip(1 - followed, 0.0, 1.0)


def _logarithms(shares: Array) -> Array:
    return np.asarray(np.log(FLOOR + np.maximum(shares, 0.0)))
