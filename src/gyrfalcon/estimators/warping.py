"""Features with heavy tails, by rank: where each of them goes so that its distribution becomes a normal one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel, Warped

SAMPLED = 5000  # rows that ranks are taken of, evenly spaced
KNOTS = 64  # of each map
HEAVY = 8.0  # deviations from the median, of the farthest row: of normal rows, one in 10¹⁵ is as far
MOST_COLUMNS = 300  # that are mapped: of more, the maps would be larger than the model


class Warp(NamedTuple):
    """The monotone map of some features, and the rows that it was made of as it maps them, with their weights."""

    columns: Sequence[int]
    knots: Array
    values: Array
    sample: Array
    weights: Array | None

    def __call__(self, kernel: Kernel) -> Warped:
        """The kernel after the map."""
        return Warped(kernel, self.columns, self.knots, self.values)  # type: ignore[arg-type]


def rank_warp(X: Any, weights: Array | None) -> Warp | None:
    """The map of features that have heavy tails to normal scores of their ranks; None if none has.

    A feature that takes two values only stays as it is: a map would do no more than a length scale does.

    Parameters
    ----------
    X : array or tensor of shape (n, d)
    weights : array of shape (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> X = np.exp(3 * np.random.default_rng(0).normal(size=(1000, 1)))
    >>> scores = rank_warp(X, None).sample
    >>> bool(X.max() > 8 * X.std()), bool(scores.max() < 4)
    (True, True)
    """
    rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
    if len(rows) > SAMPLED:
        rows = rows[np.linspace(0, len(rows) - 1, SAMPLED).astype(np.intp)]
    sample = as_numpy(X[rows], np.float64)
    w = np.ones(len(rows)) if weights is None else weights[rows]
    columns = [j for j, feature in enumerate(sample.T) if _heavy(feature, w)]
    if not columns or len(columns) > MOST_COLUMNS:
        return None
    tables = np.array([_normal_scores(sample[:, j], w) for j in columns])
    knots, values = tables[:, 0], tables[:, 1]
    for j, at, score in zip(columns, knots, values, strict=True):
        sample[:, j] = np.interp(sample[:, j], at, score)
    return Warp(columns, knots, values, sample, None if weights is None else w)


def _heavy(feature: Array, weights: Array) -> bool:
    half = feature / 2  # the range itself may overflow
    span = float(half.max(initial=0.0) - half.min(initial=0.0))
    if not 0 < span < np.inf:
        return False
    scaled = (half - half.min()) / span
    order = np.argsort(scaled)
    mass = np.cumsum(weights[order])
    median = scaled[order[np.searchsorted(mass, mass[-1] / 2)]]
    mean = weights @ scaled / mass[-1]
    deviation = np.sqrt(weights @ (scaled - mean) ** 2 / mass[-1])
    far = np.abs(scaled - median).max() > HEAVY * deviation
    return bool(far and len(np.unique(scaled)) > 2)


def _normal_scores(feature: Array, weights: Array) -> tuple[Array, Array]:
    """Knots and values: different numbers, evenly spaced by rank, and the normal quantiles of their middle ranks."""
    different, group = np.unique(feature, return_inverse=True)
    mass = np.bincount(group, weights)
    ranks = (np.cumsum(mass) - mass / 2) / mass.sum()
    if len(different) > KNOTS:
        wanted = np.interp(np.linspace(ranks[0], ranks[-1], KNOTS), ranks, np.arange(len(ranks)))
        kept = np.round(wanted).astype(np.intp)
        different, ranks = different[kept], ranks[kept]
    repeated = np.minimum(np.arange(KNOTS), len(different) - 1)
    return different[repeated], ndtri(ranks)[repeated]
