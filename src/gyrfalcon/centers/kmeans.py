from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import AnyPoints, device_of, torch_dtype
from gyrfalcon.kernels import Kernel, Scaled
from gyrfalcon.kernels.base import scale_inputs
from gyrfalcon.kernels.distances import shift_of

from .rows import DEFAULT_BUDGET, Array, checked_count, draw, eligible, in_double, subsample

_ITERATIONS = 10
_ROUND = 16  # seeds there are for each drawn in a round
_ROWS_PER_CENTER = 100, 20  # as many as the work allows, and never fewer
_WORK = 4e8  # distances in an iteration
_BLOCK_BYTES = 4 << 20


def kmeans(
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> AnyPoints:
    """Means of clusters: Lloyd's iterations on a sample, started from rows drawn far from those before them.

    The distance is ‖(x - c) / length_scale‖ for a kernel with length scales, Euclid's otherwise. A sample has at most
    100 rows per center, and there are ten iterations at most. Equal rows give one center, so there may be fewer.

    Parameters
    ----------
    kernel : Kernel
    X : array or tensor of shape (n, d)
    count : int
    weights : array of shape (n,), optional
    random : numpy.random.Generator
    memory_budget : int, optional
        Bytes that the sample may take; 1 GB if not given.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers import kmeans
    >>> X = np.array([[0.0], [0.2], [7.0], [7.2], [7.4]])
    >>> np.sort(kmeans(gf.kernels.Gaussian(), X, 2, random=np.random.default_rng(0)), axis=0)
    array([[0.1],
           [7.2]])
    """
    if isinstance(X, sparse.csr_array):
        raise ValueError(
            "centers='kmeans' needs dense points: convert X with .toarray() or choose 'uniform' or 'pivoted'"
        )
    rows, weights = eligible(X, weights)
    count = checked_count(count)
    most, least = (k * count for k in _ROWS_PER_CENTER)
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    size = min(max(least, min(most, int(_WORK / count))), budget // (32 * max(1, X.shape[1])))
    rows, weights = subsample(rows, weights, max(size, count), random)
    points = in_double(X, rows)
    shift = shift_of(torch.from_numpy(points)).numpy()
    points -= shift
    metric = _Metric(kernel, X, points)
    centers = points[_seeds(metric, weights, count, random)]
    labels = np.full(len(points), -1)
    for _ in range(_ITERATIONS):
        before = labels
        labels, squared = metric.nearest(metric.embed(centers))
        members = sparse.csr_array((weights, (labels, np.arange(len(points)))), shape=(len(centers), len(points)))
        mass = members.sum(axis=1)
        filled = mass > 0
        means = (members @ points)[filled] / mass[filled, None]
        far = draw(weights * squared, int((~filled).sum()), random)  # new places for clusters without members
        centers = np.concatenate([means, points[far]])
        if len(far) == 0 and np.array_equal(labels, before):
            break
    like = torch.from_numpy(centers + shift).to(torch_dtype(X)).to(device_of(X))
    return like if isinstance(X, Tensor) else like.numpy()


def _seeds(metric: _Metric, weights: Array, count: int, random: np.random.Generator) -> Array:
    """Rows drawn in proportion to the squared distance from those drawn before, one by one and later in rounds."""
    seeds = draw(weights, 1, random)
    squared = np.full(len(weights), np.inf)
    new = seeds
    while True:
        squared = np.minimum(squared, metric.nearest(metric.points[torch.from_numpy(new)])[1])
        new = draw(weights * squared, min(max(1, len(seeds) // _ROUND), count - len(seeds)), random)
        if len(new) == 0:
            return seeds
        seeds = np.concatenate([seeds, new])


class _Metric:
    """The sample where the distance is Euclid's, on the device of X, in a unit that keeps squares in range."""

    def __init__(self, kernel: Kernel, X: AnyPoints, points: Array):
        while isinstance(kernel, Scaled):
            kernel = kernel.kernel
        self.length_scale = getattr(kernel, "length_scale", 1.0)
        self.dtype, self.device = torch_dtype(X), device_of(X)
        self.unit = 1.0
        self.unit = float(np.abs(self._scaled(points).numpy()).max(initial=0.0)) or 1.0
        self.points = self.embed(points)

    def _scaled(self, points: Array) -> Tensor:
        return scale_inputs(torch.from_numpy(points), self.length_scale).detach()

    def embed(self, points: Array) -> Tensor:
        return (self._scaled(points) / self.unit).to(self.dtype).to(self.device)

    def nearest(self, centers: Tensor) -> tuple[Array, Array]:
        """For each point of the sample the nearest center and its squared distance."""
        labels = torch.empty(len(self.points), dtype=torch.int64, device=self.device)
        squared = torch.empty(len(self.points), dtype=self.dtype, device=self.device)
        half = centers.square().sum(1) / 2
        step = max(1, _BLOCK_BYTES // (len(centers) * self.dtype.itemsize))
        for start in range(0, len(self.points), step):
            block = self.points[start : start + step]
            found = torch.addmm(half, block, centers.T, alpha=-1).argmin(1)  # (‖x - c‖² - ‖x‖²) / 2
            labels[start : start + step] = found
            squared[start : start + step] = (block - centers[found]).square().sum(1)  # zero for equal rows
        return labels.cpu().numpy(), squared.double().cpu().numpy()
