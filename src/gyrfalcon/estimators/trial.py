"""Whether a partition errs less than centers do, tried on a sample of the rows before a fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import Array, as_numpy, device_of, torch_dtype
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import Partition, fit_partition
from gyrfalcon.solvers import LeastSquares, solve
from gyrfalcon.threads import one_thread_each, threads_to_share
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.trace import Candidate, Stage

MOST_ROWS = 300_000  # beyond, a model that keeps every row is too large to be a default
SAMPLED_SHARE = 1 / 3  # of the rows, that a trial fits
HELD_ROWS = 2000  # at most, of the others, that it judges by
SEED = 0  # of the sample and its centers: the same rows, the same decision
NOTHING_LEFT = 1e-8  # of the variance: centers that err no more leave leaves nothing but rounding to fit
CLEARLY = 0.99  # of the error with centers alone, below which leaves are worth their memory


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
    """Fit a sample of the rows with leaves, and with centers alone, all in the same proportion to the rows.

    So there are as many leaves as there would be, each with fewer rows, and no more centers to a row.
    """
    rows, points = data.points.shape[0], data.points
    ineligible = isinstance(points, Source) or sparse.issparse(points) or device_of(points).type != "cpu"
    if ineligible or kernel.explicit or rows <= max(n_centers, 2 * partition.leaf_rows) or rows > MOST_ROWS:
        return Trial(None, None)
    random = np.random.default_rng(SEED)
    sampled, held = np.split(random.permutation(rows), [int(SAMPLED_SHARE * rows)])
    kept, out = (_part(data, np.sort(part)) for part in (sampled, held[:HELD_ROWS]))
    small = replace(partition, leaf_rows=int(SAMPLED_SHARE * partition.leaf_rows), centers=_sampled(partition.centers))
    base, alone = (
        _nystrom(kernel, kept, count, noise, intercept, random, memory_budget)
        for count in (small.centers, _sampled(n_centers))
    )
    leaves = fit_partition(
        kernel,
        kept.points,
        kept.Y,
        noise,
        small,
        base=base,
        weights=kept.weights,
        memory_budget=memory_budget,
        threads=threads_to_share(),
    )
    constant = _error(out, np.average(kept.Y, axis=0, weights=kept.weights)) or 1.0
    errors = [_error(out, function(out.points)) / constant for function in (alone, leaves.predict)]
    local = errors[0] > NOTHING_LEFT and errors[1] < CLEARLY * errors[0]
    tried = (f"{n_centers:,} centers", f"{partition.centers:,} centers and leaves of {partition.leaf_rows:,} rows")
    stage = Stage(
        "partition",
        f"error on {len(out.Y):,} rows of a fit to {len(kept.Y):,}, of that of a constant",
        [Candidate(f"{kernel!r}, {how}", noise, error) for how, error in zip(tried, errors, strict=True)],
        int(local),
        "leaves err clearly less" if local else "leaves do not err clearly less",
    )
    return Trial(partition if local else None, stage)


def _sampled(count: int) -> int:
    """A number of centers in the proportion of the sample."""
    return max(1, math.ceil(SAMPLED_SHARE * count))


def _part(data: Data, rows: Array) -> Data:
    return Data(take(data.points, rows), data.Y[rows], None if data.weights is None else data.weights[rows])


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


def _error(data: Data, values: Array) -> float:
    return float(np.average(np.square(data.Y - values).mean(1), weights=data.weights))
