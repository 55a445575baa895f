from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.kernels import Kernel
from gyrfalcon.linalg.triangles import cholesky_with_jitter

from .rows import (
    DEFAULT_BUDGET,
    Array,
    check_positive,
    checked_count,
    dense,
    diagonal,
    draw,
    eligible,
    in_double,
    take,
)

_STEP = 4.0  # the penalty is divided by it from level to level
_OVERSAMPLING = 6.0  # size of a dictionary over the sum of all scores
_SMALLEST, _LARGEST = 200, 1000  # dictionaries; between these they have two rows per center at most
_CANDIDATES = 3  # times the largest dictionary: rows scored at a level
_FEWEST = 1000  # candidates, however few centers are wanted
_FINAL_CANDIDATES = 10  # times count: rows that the centers are drawn from


def leverage(
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> AnyPoints:
    """Rows of X without replacement in proportion to their approximate ridge leverage scores.

    The score of row i is entry (i, i) of K (K + penalty·n·I)⁻¹, or of √W K √W (√W K √W + penalty·Σw·I)⁻¹ with weights;
    see `leverage_scores`.

    Parameters
    ----------
    kernel : Kernel
        Positive definite.
    X : array, tensor or CSR of shape (n, d)
    count : int
    weights : array of shape (n,), optional
    penalty : float
        As in the least-squares problem that the centers are for.
    random : numpy.random.Generator
    memory_budget : int, optional
        Bytes for kernel blocks; 1 GB if not given.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers import leverage
    >>> X = np.concatenate([np.zeros((1000, 1)), np.full((1, 1), 9.0)])  # one row unlike all others
    >>> leverage(gf.kernels.Gaussian(), X, 20, random=np.random.default_rng(0)).max()
    np.float64(9.0)
    """
    rows, scores, chance = leverage_scores(
        kernel, X, count, weights=weights, penalty=penalty, random=random, memory_budget=memory_budget
    )
    return take(X, rows[draw(scores / chance, count, random)])


def leverage_scores(
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> tuple[Array, Array, Array]:
    """Some rows of X, their approximate ridge leverage scores, and with what probability each came to be among them.

    Bottom up [1]_: a few weighted rows, the dictionary, give the scores for a large penalty; rows drawn by those scores
    make the dictionary for half the penalty, and so on. All rows are scored if there are at most ten per center,
    otherwise about as many, drawn by weight. A dictionary has about 1000 rows at most, so the work is bounded whatever
    the effective dimension; scores are too large where that is too few.

    References
    ----------
    .. [1] A. Rudi, D. Calandriello, L. Carratino, L. Rosasco, "On fast leverage score sampling and optimal learning",
       2018.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers.leverage import leverage_scores
    >>> X = np.array([[0.0], [0.0], [9.0]])
    >>> rows, scores, chance = leverage_scores(
    ...     gf.kernels.Gaussian(), X, 3, penalty=1 / 3, random=np.random.default_rng(0)
    ... )
    >>> scores.round(2), chance
    (array([0.33, 0.33, 0.5 ]), array([1., 1., 1.]))
    """
    check_positive(kernel, "leverage")
    rows, weights = eligible(X, weights)
    weights = weights / weights.mean()
    count = checked_count(count)
    limit = min(max(2 * count, _SMALLEST), _LARGEST)
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget

    def candidates(size: int) -> _Rows:
        chance = _chances(weights, size)
        kept = np.flatnonzero(random.random(len(rows)) < chance)
        points = in_double(X, rows[kept])
        return _Rows(rows[kept], points, np.maximum(diagonal(kernel, points), 0.0), weights[kept], chance[kept])

    final = candidates(max(_FINAL_CANDIDATES * count, _FEWEST))
    top = float(final.diagonal.max())
    penalty = max(penalty, np.finfo(float).eps * top, np.finfo(float).tiny)
    levels = max(1, math.ceil(math.log(max(top / penalty, 1.0), _STEP)))
    all_fit = len(rows) <= limit
    dictionary = final if all_fit else final.only(np.arange(0), final.chance)
    for level in () if all_fit else np.geomspace(max(top, penalty), penalty, levels + 1)[1:]:
        some = candidates(max(_CANDIDATES * limit, _FEWEST))
        scores = _scores(kernel, some, dictionary, level * len(rows), budget)
        dimension = float(np.sum(scores / some.chance))
        size = min(max(_OVERSAMPLING * dimension, _SMALLEST), limit)
        chance = np.minimum(some.chance, scores * (size / dimension))
        dictionary = some.only(np.flatnonzero(random.random(len(chance)) * some.chance < chance), chance)
    return final.rows, _scores(kernel, final, dictionary, penalty * len(rows), budget), final.chance


class _Rows(NamedTuple):
    """Some rows, and the probability with which each came to be among them."""

    rows: Array
    points: Any
    diagonal: Array
    weights: Array
    chance: Array

    def only(self, kept: Array, chance: Array) -> _Rows:
        return _Rows(self.rows[kept], self.points[kept], self.diagonal[kept], self.weights[kept], chance[kept])


def _chances(weights: Array, size: int) -> Array:
    """min(1, c·w) with the c for which `size` rows are expected."""
    chance = np.ones(len(weights))
    free = np.flatnonzero(chance)
    while size < len(weights):
        room = size - (len(weights) - len(free))
        part = room * (weights[free] / weights[free].sum())
        if (part <= 1).all():
            chance[free] = part
            break
        free = free[part < 1]
    return chance


def _scores(kernel: Kernel, some: _Rows, dictionary: _Rows, ridge: float, budget: int) -> Array:
    """w (k(x, x) - k(x, D) (k(D, D) + ridge·P/W)⁻¹ k(D, x)) / ridge, with a dictionary D drawn with probabilities P."""
    left = some.diagonal.copy()
    if size := len(dictionary.rows):
        matrix = np.asfortranarray(dense(kernel, dictionary.points, dictionary.points))
        np.fill_diagonal(matrix, matrix.diagonal() + ridge * dictionary.chance / dictionary.weights)
        cholesky_with_jitter(matrix, 0.0)
        step = max(1, budget // (32 * size))
        for start in range(0, len(left), step):
            block = dense(kernel, some.points[start : start + step], dictionary.points).T
            solved = solve_triangular(matrix, block, trans="T", overwrite_b=True, check_finite=False)
            left[start : start + step] -= np.einsum("ij,ij->j", solved, solved)
    return np.clip(some.weights * left / ridge, np.finfo(float).eps, 1.0)
