"""How many centers to take, and whether a partition errs less, tried on a sample of the rows before a fit."""

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
from gyrfalcon.partition import LocalFunction, Partition, fit_partition
from gyrfalcon.solvers import LeastSquares, choose, solve
from gyrfalcon.solvers.rounding import shows_in
from gyrfalcon.threads import one_thread_each, threads_to_share
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.trace import Candidate, Stage

MOST_ROWS = 300_000  # beyond, a model that keeps every row is too large to be a default
SAMPLED_SHARE = 1 / 3  # of the rows, that a trial fits
SAMPLED_ROWS = 20_000  # at most, beyond which their number grows like the root of that of all rows
HELD_ROWS = 2000  # at most, of the others, that it judges by
SEED = 0  # of the sample and its centers: the same rows, the same decision
NOTHING_LEFT = 1e-8  # of the variance: centers that err no more leave leaves nothing but rounding to fit
NOTHING_LEARNED = 0.98  # of the variance: if the fewest centers err as much, there is no signal to spend time on
ALIKE = 0.01  # part of the lowest error by which others are called as low, and the cheapest of them taken
MANY_ROWS = 20_000  # beyond, where time matters more, it is
ALIKE_OF_MANY = 0.05
CENTER_PARTS = (4, 2, 1)  # of the centers there would be: a quarter, and so on
LEAST_CENTERS = 250


class Trial(NamedTuple):
    """What a trial decided: the partition, or None for centers alone, their number, and the record of it."""

    partition: Partition | None
    n_centers: int
    stage: Stage | None


class _Way(NamedTuple):
    """One way to fit all rows: so many centers, with leaves or alone."""

    n_centers: int
    partition: Partition | None

    def __str__(self) -> str:
        leaves = "" if self.partition is None else f" and leaves of {self.partition.leaf_rows:,} rows"
        return f"{self.n_centers:,} centers{leaves}"


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

    So there are as many leaves as there would be, each with fewer rows, and no more centers to a row. Fewer centers
    are tried too, and the cheapest is taken of those that err alike.
    """
    rows, points = data.points.shape[0], data.points
    ineligible = isinstance(points, Source) or sparse.issparse(points) or device_of(points).type != "cpu"
    if ineligible or kernel.explicit or rows <= max(n_centers, 2 * partition.leaf_rows) or rows > MOST_ROWS:
        return Trial(None, n_centers, None)
    random = np.random.default_rng(SEED)
    share = _share(rows)
    sampled, held = np.split(random.permutation(rows), [int(share * rows)])
    kept, out = (_part(data, np.sort(part)) for part in (sampled, held[:HELD_ROWS]))
    constant = _error(out, np.average(kept.Y, axis=0, weights=kept.weights)) or 1.0
    ways, errors = _ways(partition, n_centers), []
    for way in ways:
        function = _nystrom(
            kernel, kept, max(1, math.ceil(share * way.n_centers)), noise, intercept, random, memory_budget
        )
        if way.partition is None:
            values = function(out.points)
        else:
            small = replace(way.partition, leaf_rows=max(2, int(share * way.partition.leaf_rows)))
            values = _leaves(kernel, kept, noise, small, function, memory_budget).predict(out.points)
        errors.append(_error(out, values) / constant)
        if errors[0] > NOTHING_LEARNED:
            break
    alike = ALIKE if rows <= MANY_ROWS else ALIKE_OF_MANY
    chosen = _cheapest_of_alike(ways, errors, alike)
    stage = Stage(
        "centers and leaves",
        f"error on {len(out.Y):,} rows of a fit to {len(kept.Y):,}, of that of a constant",
        [Candidate(f"{kernel!r}, {way}", noise, error) for way, error in zip(ways, errors, strict=False)],
        chosen,
        f"the cheapest of those within {alike:.0%} of the lowest error",
    )
    return Trial(ways[chosen].partition, ways[chosen].n_centers, stage)


def _ways(partition: Partition, n_centers: int) -> list[_Way]:
    """In order of what they cost."""
    counts = sorted({max(min(LEAST_CENTERS, n_centers), n_centers // part) for part in CENTER_PARTS})
    return [*(_Way(count, None) for count in counts), _Way(partition.centers, partition)]


def _cheapest_of_alike(ways: list[_Way], errors: list[float], alike: float) -> int:
    limit = (1 + alike) * min(errors)
    alone = [error for way, error in zip(ways, errors, strict=False) if way.partition is None]
    if min(alone) <= NOTHING_LEFT:
        limit = max(limit, min(alone))
    return next(place for place, error in enumerate(errors) if error <= limit)


def _leaves(
    kernel: Kernel, data: Data, noise: float, partition: Partition, base: Predictor, budget: int
) -> LocalFunction:
    return fit_partition(
        kernel,
        data.points,
        data.Y,
        noise,
        partition,
        base=base,
        weights=data.weights,
        memory_budget=budget,
        threads=threads_to_share(),
    )


def _share(rows: int) -> float:
    """Of the rows, that a trial fits."""
    return SAMPLED_SHARE * min(1.0, math.sqrt(SAMPLED_ROWS / (SAMPLED_SHARE * rows)))


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
    problem = LeastSquares(K, Y, noise / total, weights, intercept)
    solution = solve(problem, choose(problem)[0])
    beta, b = as_numpy(solution.coefficients), as_numpy(solution.intercept)
    return Predictor(kernel, C, beta, b, wide=shows_in(solution), memory_budget=budget)


def _error(data: Data, values: Array) -> float:
    return float(np.average(np.square(data.Y - values).mean(1), weights=data.weights))
