"""Centers: rules that choose the points at which a kernel model has its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gyrfalcon.arrays import AnyPoints, as_kind
from gyrfalcon.data import Source
from gyrfalcon.data.points import as_points
from gyrfalcon.kernels import Kernel

from .automatic import automatic_count
from .distinct import distinct, merge, merge_equal, without_duplicates
from .kmeans import kmeans
from .leverage import leverage, leverage_scores
from .pivoted import pivoted
from .rows import DEFAULT_BUDGET, Array, checked_count, eligible, stand_in
from .uniform import uniform

__all__ = [
    "RULES",
    "automatic_count",
    "distinct",
    "kmeans",
    "leverage",
    "leverage_scores",
    "merge",
    "merge_equal",
    "pivoted",
    "select",
    "uniform",
]

Rule = Callable[..., AnyPoints]
_ROWS_SEEN = 4  # for each center, to see whether there are more distinct rows than centers
_SAMPLED, _SAMPLED_PER_CENTER = 100_000, 20  # rows of a source in memory, the larger of both

RULES: dict[str, Rule] = {"uniform": uniform, "kmeans": kmeans, "leverage": leverage, "pivoted": pivoted}


def select(
    centers: str | Rule | Any,
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> AnyPoints:
    """Choose centers by a rule, or take those given; they come as X does: in its kind, type and device.

    A named rule returns all distinct rows of positive weight, sorted, if there are no more than `count`. Rows that a
    rule chose twice are kept once. Of a Source, which is read once, a named rule sees as many rows as it has use for,
    drawn by weight; the centers are an array.

    Parameters
    ----------
    centers : "uniform", "kmeans", "leverage" or "pivoted", a callable with their signature, or points of shape (m, d)
    kernel : Kernel
    X : array, tensor, CSR or Source of shape (n, d)
        As `gyrfalcon.arrays.as_points` returns it.
    count : int
        How many centers at most; points that are given are taken as they are.
    weights : array of shape (n,), optional
        Not negative. A row of weight two is like two rows; one of weight zero never becomes a center.
    penalty : float
    random : numpy.random.Generator
    memory_budget : int, optional
        Bytes that a rule may take; 1 GB if not given.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers import select
    >>> X, random = np.array([[3.0], [1.0], [3.0]]), np.random.default_rng(0)
    >>> select("uniform", gf.kernels.Gaussian(), X, 2, random=random)
    array([[1.],
           [3.]])
    >>> select([[5]], gf.kernels.Gaussian(), X, 2, random=random)
    array([[5.]])
    """
    if isinstance(centers, str) and centers not in RULES:
        raise ValueError(f"centers must be one of {', '.join(map(repr, RULES))}, a callable or points, got {centers!r}")
    if not isinstance(centers, str) and not callable(centers):
        return _like(X, centers)
    count = checked_count(count)
    if isinstance(X, Source) and isinstance(centers, str):
        X, weights = stand_in(X, weights, _rows_of_use(centers, X, count, memory_budget), random)
    if not isinstance(X, Source):
        eligible(X, weights)  # complains of bad weights
    if isinstance(centers, str):
        head = slice(_ROWS_SEEN * count)  # enough, as a rule, to see that there are more
        if distinct(X[head], weights if weights is None else weights[head])[0].shape[0] <= count:
            rows, _ = distinct(X, weights)
            if rows.shape[0] <= count:
                return rows
    rule = RULES[centers] if isinstance(centers, str) else centers
    chosen = rule(kernel, X, count, weights=weights, penalty=penalty, random=random, memory_budget=memory_budget)
    return without_duplicates(_like(X, chosen))


def _rows_of_use(rule: str, X: AnyPoints, count: int, memory_budget: int | None) -> int:
    """How many rows of a source a rule is given: within half the budget, but never fewer than it is to choose."""
    wanted = _ROWS_SEEN * count if rule == "uniform" else max(_SAMPLED_PER_CENTER * count, _SAMPLED)
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    return max(count, min(wanted, budget // (2 * X.dtype.itemsize * max(1, X.shape[1]))))


def _like(X: AnyPoints, centers: Any) -> AnyPoints:
    points = as_points(centers, "centers")
    if points.shape[0] == 0 or points.shape[1] != X.shape[1]:
        raise ValueError(f"centers must have rows of {X.shape[1]} features, as X has, got shape {tuple(points.shape)}")
    return as_kind(points, X)
