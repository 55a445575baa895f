"""Whether a partition errs less than centers do, tried on a part of the rows before a fit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import AnyPoints, Array, as_numpy, device_of, torch_dtype
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import Partition, fit_partition
from gyrfalcon.partition.coordinates import coordinates_of
from gyrfalcon.partition.tree import grow
from gyrfalcon.solvers import LeastSquares, solve
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.threads import one_thread_each, threads_to_share
from gyrfalcon.tuning.trace import Candidate, Stage

MOST_ROWS = 300_000  # beyond, a model that keeps every row is too large to be a default
REGION_SHARE = 4  # the part of the rows that the trial looks at, as a divisor
REGION_ROWS = 5000  # at least
HELD_SHARE, MOST_HELD_ROWS = 0.2, 2000  # of those rows, to judge by
SEED = 0  # of the region and its centers: the same rows, the same decision
CLEARLY = 0.98  # of the error with centers alone, below which leaves are worth their memory


class Trial(NamedTuple):
    """What a trial decided: the partition, or None for centers alone, and the record of it."""

    partition: Partition | None
    stage: Stage | None


@one_thread_each
def try_partition(
    partition: Partition,
    kernel: Kernel,
    data: Data,
    noise: float,
    n_centers: int,
    *,
    intercept: bool,
    memory_budget: int,
) -> Trial:
    """Fit a region of the rows with leaves, and with as many centers as the fit of all rows would have there.

    The region is a part that splits along the leading directions leave together, so that leaves and centers are as
    dense in it as in the whole.
    """
    rows, points = data.points.shape[0], data.points
    ineligible = isinstance(points, Source) or sparse.issparse(points) or device_of(points).type != "cpu"
    if ineligible or kernel.explicit or rows <= max(n_centers, 2 * partition.leaf_rows) or rows > MOST_ROWS:
        return Trial(None, None)
    random = np.random.default_rng(SEED)
    region = _region(kernel, points, max(REGION_ROWS, rows // REGION_SHARE), random)
    held = min(MOST_HELD_ROWS, int(HELD_SHARE * len(region)))
    share = (len(region) - held) / rows
    kept, out = (Data(take(points, part), data.Y[part], _at(data.weights, part)) for part in np.split(region, [-held]))
    few, many = (max(2, math.ceil(share * count)) for count in (partition.centers, n_centers))
    base, alone = (_nystrom(kernel, kept, count, noise, intercept, random, memory_budget) for count in (few, many))
    leaves = fit_partition(
        kernel,
        kept.points,
        kept.Y,
        noise,
        partition,
        base=base,
        weights=kept.weights,
        memory_budget=memory_budget,
        threads=threads_to_share(),
    )
    constant = _error(out, np.average(kept.Y, axis=0, weights=kept.weights)) or 1.0
    errors = [_error(out, function(out.points)) / constant for function in (alone, leaves.predict)]
    local = errors[1] < CLEARLY * errors[0]
    tried = (f"{n_centers:,} centers", f"{partition.centers:,} centers and leaves of {partition.leaf_rows:,} rows")
    stage = Stage(
        "partition",
        f"error on {held:,} held-out rows of a region of {len(region):,}, of that of a constant",
        [Candidate(f"{kernel!r}, {how}", noise, error) for how, error in zip(tried, errors, strict=True)],
        int(local),
        "leaves err clearly less" if local else "leaves do not err clearly less",
    )
    return Trial(partition if local else None, stage)


def _region(kernel: Kernel, points: AnyPoints, count: int, random: np.random.Generator) -> Array:
    """About so many rows that lie together, in random order."""
    coordinates = coordinates_of(kernel, points)
    _, regions = grow(points, coordinates, Partition(leaf_rows=max(2, count), overlap=0.0))
    chosen = regions[int(random.integers(len(regions)))]
    return np.asarray(random.permutation(chosen))


def _nystrom(
    kernel: Kernel, data: Data, count: int, noise: float, intercept: bool, random: np.random.Generator, budget: int
) -> Predictor:
    C = center_rules.select(
        "uniform", kernel, data.points, count, weights=data.weights, random=random, memory_budget=budget
    )
    K = KernelMatrix(kernel, Points(data.points), Points(C), memory_budget=budget)
    dtype = torch_dtype(data.points)
    Y = torch.from_numpy(np.ascontiguousarray(data.Y)).to(dtype=dtype)
    weights = None if data.weights is None else torch.from_numpy(data.weights)[:, None].to(dtype=dtype)
    total = float(len(Y) if data.weights is None else data.weights.sum())
    solution = solve(LeastSquares(K, Y, noise / total, weights, intercept), "direct")
    return Predictor(kernel, C, as_numpy(solution.coefficients), as_numpy(solution.intercept), memory_budget=budget)


def _at(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]


def _error(data: Data, values: Array) -> float:
    return float(np.average(np.square(data.Y - values).mean(1), weights=data.weights))
