"""A length scale from the data alone: the spread of each feature times the median distance between points."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import AnyPoints, to_tensor
from gyrfalcon.centers.rows import stand_in
from gyrfalcon.data import Source
from gyrfalcon.kernels import Function, Gaussian, Kernel, Matern, ProductLaplacian, from_name
from gyrfalcon.kernels.dot import DotKernel
from gyrfalcon.kernels.names import NAMES
from gyrfalcon.threads import one_thread_each
from gyrfalcon.tuning import Recipe
from gyrfalcon.tuning.automatic import share_unit

from .warping import Warp, rank_warp

Array = np.ndarray[Any, Any]

SAMPLED = 100_000  # rows of a source that spreads are taken of
ALL_PAIRS = 400  # rows up to which the median is that of all distances
PAIRS_FROM = 200  # of more rows, so many whose distances it is taken of
WIDE = 5  # times the rows that are screened: with so many features, sums of absolute differences cost too much
MANY = 500  # features from which distances come from inner products
_CHUNK = 1 << 20  # entries looked at together
_TINY, _HUGE = 1e-300, 1e300
NO_DISTANCE = 1e-14  # of the largest squared norm: what rounding leaves of the squared distance of equal points


@one_thread_each
def resolve_kernels(
    kernel: Any, length_scale: Any, X: AnyPoints, weights: Array | None, random: Any
) -> tuple[Kernel, ...]:
    """The kernels that an estimator's `kernel` and `length_scale` mean for these data: more than one for "auto"."""
    automatic = isinstance(length_scale, str)
    if automatic and length_scale != "auto":
        raise ValueError(f"length_scale must be 'auto', a number or one number per feature, got {length_scale!r}")
    if isinstance(kernel, Kernel) or callable(kernel):
        if not automatic:
            raise ValueError(f"length_scale={length_scale!r} goes with a kernel's name: set it in the kernel instead")
        return (kernel if isinstance(kernel, Kernel) else Function(kernel),)
    if not isinstance(kernel, str) or kernel not in ("auto", *NAMES):
        raise ValueError(f"kernel must be 'auto', a kernel, a function or one of {sorted(NAMES)}, got {kernel!r}")
    if automatic:
        if isinstance(X, Source):
            X, weights = stand_in(X, weights, SAMPLED, random)
        metric = "euclidean" if kernel == "auto" else _metric(NAMES[kernel])
        spread = None if sparse.issparse(X) else spreads(X, weights)
        scale = automatic_length_scale(X, weights, random, metric=metric, spread=spread)
    else:
        scale = _check(length_scale, X.shape[1])
    if kernel != "auto":
        return (from_name(kernel, length_scale=scale),)
    smooth = Gaussian(scale), Matern(scale, nu=1.5)
    if isinstance(X, sparse.csr_array):
        return smooth
    wide = X.shape[1] > WIDE * min(X.shape[0], Recipe().screening_rows)
    metrics = ("euclidean",) if wide else ("euclidean", "absolute")
    if automatic and not wide:
        scale = automatic_length_scale(X, weights, random, metric="absolute", spread=spread)
    warp = rank_warp(X, weights) if automatic and not share_unit(X) else None
    kernels = smooth if wide else (*smooth, ProductLaplacian(scale))
    return kernels if warp is None else kernels + tuple(_warped(warp, random, metric) for metric in metrics)


def _warped(warp: Warp, random: np.random.Generator, metric: str) -> Kernel:
    """A kernel of features that are mapped by rank, where some have heavy tails."""
    scale = automatic_length_scale(warp.sample, warp.weights, random, metric=metric)
    return warp(ProductLaplacian(scale) if metric == "absolute" else Matern(scale, nu=1.5))


def _metric(kernel: type[Kernel]) -> str:
    if issubclass(kernel, DotKernel):
        return "inner product"
    return "absolute" if issubclass(kernel, ProductLaplacian) else "euclidean"


def _check(length_scale: Any, features: int) -> Any:
    if not isinstance(length_scale, numbers.Real) and np.shape(length_scale) not in [(), (features,)]:
        raise ValueError(f"length_scale has shape {np.shape(length_scale)} but X has {features} features")
    return length_scale


def automatic_length_scale(
    X: AnyPoints,
    weights: Array | None,
    random: np.random.Generator,
    *,
    metric: str = "euclidean",
    spread: Array | None = None,
) -> Any:
    """One length scale per feature, spreadⱼ × median distance after division by the spreads; one for all if sparse.

    The distance is the Euclidean one or the sum of "absolute" differences; for an "inner product" it is replaced by √d.
    Rows count by their weights; repeating a row
    and weighting it are the same. Features that do not vary have spread one; `spread` is that of X if it is known.

    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 100.0]])
    >>> [round(s, 3) for s in automatic_length_scale(X, None, np.random.default_rng(0))]
    [1.414, 141.421]
    """
    if isinstance(X, sparse.csr_array):
        if metric == "inner product":
            return math.sqrt(max(_mean_square(X, weights), _TINY))
        return _median_distance(X, weights, random)
    spread = spreads(X, weights) if spread is None else spread
    if metric == "inner product":
        factor = math.sqrt(X.shape[1])
    else:
        factor = _median_distance(X, weights, random, spread, norm=1.0 if metric == "absolute" else 2.0)
    scales = np.clip(spread * factor, _TINY, _HUGE)
    return float(scales[0]) if (scales == scales[0]).all() else tuple(scales.tolist())


def spreads(X: Any, weights: Array | None) -> Array:
    """The weighted standard deviation of each feature, in float64; one where a feature does not vary."""
    used = None if weights is None else torch.from_numpy(weights)
    low = torch.full((X.shape[1],), math.inf, dtype=torch.float64)
    high = -low
    for part, w in _chunks(X, used):
        present = part if w is None else part[w > 0]
        if len(present):
            low = torch.minimum(low, present.amin(0))
            high = torch.maximum(high, present.amax(0))
    middle, half = low / 2 + high / 2, high / 2 - low / 2  # halves first: the range itself may overflow
    eps = torch.finfo(torch.float64 if X.dtype in (np.float64, torch.float64) else torch.float32).eps
    varies = half > 4 * eps * middle.abs()
    unit = torch.where(varies, half, 1.0)
    total, first, second = 0.0, torch.zeros_like(low), torch.zeros_like(low)
    for part, w in _chunks(X, used):
        scaled = (part - middle) / unit
        w = torch.ones(len(part), dtype=torch.float64) if w is None else w
        total += float(w.sum())
        first += w @ scaled
        second += w @ scaled.square_()
    variance = (second / total - (first / total).square()).clamp_min(0)  # entries are in [-1, 1]: nothing cancels badly
    spread: Array = torch.where(varies & (variance > 0), unit * variance.sqrt(), 1.0).numpy()
    return spread


def _chunks(X: Any, weights: Tensor | None) -> Iterator[tuple[Tensor, Tensor | None]]:
    step = max(1, _CHUNK // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        part = to_tensor(X[start : start + step]).cpu().double()
        yield part, None if weights is None else weights[start : start + step]


def _mean_square(X: sparse.csr_array, weights: Array | None) -> float:
    squares = np.asarray(X.multiply(X).sum(1), dtype=np.float64).ravel()
    return float(np.average(squares, weights=weights))


def _median_distance(
    X: Any, weights: Array | None, random: np.random.Generator, spread: Array | None = None, norm: float = 2.0
) -> float:
    n = X.shape[0]
    kept = np.arange(n) if weights is None else np.flatnonzero(weights)
    chosen = np.ones(n) if weights is None else weights
    if len(kept) > ALL_PAIRS:
        share = None if weights is None else weights[kept] / weights[kept].sum()
        kept = np.sort(random.choice(kept, PAIRS_FROM, replace=False, p=share))
        chosen = np.ones(n)  # chosen by weight already
    rows, columns = np.triu_indices(len(kept), 1)
    distances = _distances(X, kept, spread, norm)[rows, columns]
    counts = chosen[kept[rows]] * chosen[kept[columns]]
    distances, counts = distances[distances > 0], counts[distances > 0]
    if len(distances) == 0:
        return 1.0
    order = np.argsort(distances)
    mass = np.cumsum(counts[order])
    return float(distances[order[np.searchsorted(mass, mass[-1] / 2)]])


def _distances(X: Any, kept: Array, spread: Array | None, norm: float) -> Array:
    if isinstance(X, sparse.csr_array):
        sample = X[kept].astype(np.float64)
        norms = np.asarray(sample.multiply(sample).sum(1)).ravel()
        return _from_products((sample @ sample.T).toarray(), norms)
    points = X[kept] if isinstance(X, np.ndarray) else X[torch.from_numpy(kept).to(X.device)]
    scaled = to_tensor(points).cpu().double() / torch.from_numpy(np.ones(X.shape[1]) if spread is None else spread)
    if norm == 2.0 and X.shape[1] > MANY:
        scaled -= scaled[:1].clone()  # not the mean, whose sum may overflow
        products = (scaled @ scaled.T).numpy()
        return _from_products(products, products.diagonal())
    distances: Array = torch.cdist(scaled, scaled, p=norm, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    return distances


def _from_products(products: Array, norms: Array) -> Array:
    squared = norms[:, None] + norms - 2 * products
    found: Array = np.sqrt(np.where(squared > NO_DISTANCE * norms.max(initial=0), squared, 0.0))
    return found
