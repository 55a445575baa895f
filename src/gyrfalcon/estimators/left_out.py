"""What a least squares fit would predict for some of its rows, had each of them been left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

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

EXACT_ROWS = 1200  # that are left out in turn where each of them is a center
FEATURE_ROWS = 10_000  # and at most where there are fewer centers than that
FEATURE_OPERATIONS = 1.5e9  # which the fit of those may take
SEED = 0


@dataclass(frozen=True)
class LeftOut:
    """Rows of a sample, their weights and targets, and what is known of each without it.

    Attributes
    ----------
    rows : array of ints of shape (n,)
    weights : array of shape (n,)
    targets, outputs : arrays of shape (n, t)
        The targets, and the predictions of the fit to the other rows.
    deviations : array of shape (n,)
        Of a new observation of each row, by the posterior given the others, over the deviation of the noise.
    noise : array of shape (t,)
        The variance of the noise that is most likely given the sample.
    """

    rows: Array
    weights: Array
    targets: Array
    outputs: Array
    deviations: Array
    noise: Array


@one_thread_each
def leave_out(
    kernel: Kernel,
    centers: AnyPoints | None,
    points: AnyPoints,
    encode: Callable[[Array], Array],
    weights: Array | None,
    *,
    noise: float,
    intercept: bool,
    count: int | None = None,
    rows: Array | None = None,
    below: Callable[[Array], Array] | None = None,
) -> LeftOut | None:
    """Fit a sample of the rows and leave each of them out in turn; None if fewer than two are different.

    The model's kernel, noise and, if there are fewer than rows, its centers are fitted to the sample again. Which rows
    depends on what they are if there are few, and else on their order too.

    Parameters
    ----------
    kernel : Kernel
    centers : array, tensor or CSR of shape (m, d), optional
        None if every row is one.
    points : array, tensor or CSR of shape (n, d)
    encode : callable
        Gives the targets of some rows, of shape (rows, t).
    weights : array of shape (n,), optional
    noise : float
        The penalty times the sum of all weights.
    intercept : bool
        Whether the fit has one.
    count : int, optional
        How many rows to take where every row is a center; 1,200 if not given.
    rows : array of ints, optional
        The sample, of which rows without weight are left out.
    below : callable, optional
        Gives the values at some rows of a function that the fit corrects, which leaves them as they are.
    """
    count = EXACT_ROWS if count is None else count
    if centers is not None and centers.shape[0] >= min(count, points.shape[0]):
        centers = None
    if rows is None:
        rows = _sample(points, weights, count if centers is None else _feature_rows(centers.shape[0]))
    elif weights is not None:
        rows = rows[weights[rows] > 0]
    weights = np.ones(len(rows)) if weights is None else weights[rows]
    X, group = distinct(on_host(take(points, rows)), weights)
    if X.shape[0] < 2:
        return None
    base = 0.0 if below is None else below(rows)
    Y = encode(rows) - base
    means, summed, _ = merge(Y, weights, group, X.shape[0])
    if centers is None:
        fitted, left = _with_all_rows(kernel, X, means, summed, noise, intercept=intercept)
    else:
        fitted, left = _with_centers(kernel, X, as_kind(centers, X), means, summed, noise, intercept=intercept)
    # Of a row that is there w times, or has weight w, one copy is left out.
    others = np.maximum(summed, 1.0) - 1
    kept = np.maximum(others + left, np.finfo(float).tiny)
    factor = (1 - left) / kept
    outputs = fitted[group] - factor[group, None] * (Y - fitted[group])
    level = np.average((Y - np.average(Y, axis=0, weights=weights)) * (Y - fitted[group]), axis=0, weights=weights)
    deviations = np.sqrt(1 + factor[group])
    return LeftOut(rows, weights, Y + base, outputs + base, deviations, np.maximum(level, np.finfo(float).tiny))


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
    inverse = lapack.dpotri(matrix, lower=0, overwrite_c=1)[0]  # its upper half
    product = root * blas.dsymm(1.0, inverse, np.concatenate([root * Y, root], 1))
    AY, ones = product[:, :-1], product[:, -1]
    diagonal = weights * inverse.diagonal()
    if intercept:
        share = ones / ones.sum()
        AY, diagonal = AY - np.outer(share, ones @ Y), diagonal - share * ones
    unit = noise / weights
    return Y - unit[:, None] * AY, np.clip(unit * diagonal, 0.0, 1.0)


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
