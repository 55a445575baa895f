"""How many centers to take, and whether a partition errs less, tried on a sample of the rows before a fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon import costs, progress
from gyrfalcon.arrays import AnyPoints, Array, as_numpy, device_of
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.linalg.refined import may_be_narrow
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import LocalFunction, Partition, fit_partition
from gyrfalcon.partition.leaves import MATRICES
from gyrfalcon.solvers import LeastSquares, choose, solve
from gyrfalcon.solvers.choice import expected
from gyrfalcon.solvers.rounding import shows_in
from gyrfalcon.threads import one_thread_each, threads_to_share
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.trace import Candidate, Stage

MOST_ROWS = 300_000  # of leaves: beyond, a model that keeps every row is too large to be a default
SAMPLED_SHARE = 1 / 4  # of the rows, that a trial fits
SAMPLED_ROWS = 3000  # at most
HELD_ROWS = 2000  # at most, of the others, that it judges by
SEED = 0  # of the sample and its centers: the same rows, the same decision
NOTHING_LEFT = 1e-8  # of the variance: centers that err no more leave leaves nothing but rounding to fit
NOTHING_LEARNED = 0.98  # of the variance: if the fewest centers err as much, there is no signal to spend time on
CENTER_PARTS = (4, 2, 1)  # of the centers there would be: a quarter, and so on
SMALLEST_PART = 12  # tried too where there are too many rows for leaves
LEAST_CENTERS = 250
LIGHTER = 2  # how many times fewer rows leaves have that cost less, and how many times fewer they share
ALIKE = 0.01  # part of the lowest error by which others are called as low, after their price is counted in
PRICE_EXPONENT = 0.05  # a fit that takes twice as long has to err 3 % less
OTHER_SECONDS = 0.4  # on two cores, that a fit takes beside its solve, for tuning and what else there is
ALLOWED_SECONDS, ALLOWED_NS = 0.5, 600.0  # for a solve, and for each number in the table: a few times boosted trees
PRICE_BEYOND = 0.5  # twice the time that is allowed has to err 32 % less; `python -m benchmarks many_rows`
LEAF_SECONDS = 1.5  # that leaves take on a core for one of other work: their price is one of processor time
LEAF_PRICE = 1.25  # of leaves, which look better in a small fit than they are and make a model of every row


class Trial(NamedTuple):
    """What a trial decided: the partition, or None for centers alone, their number, and the record of it."""

    partition: Partition | None
    n_centers: int
    stage: Stage | None


class Way(NamedTuple):
    """One way to fit all rows: so many centers, with leaves or alone, and the seconds that it is expected to take."""

    n_centers: int
    partition: Partition | None
    seconds: float

    def __str__(self) -> str:
        leaves = "" if self.partition is None else f" and leaves of {self.partition.leaf_rows:,} rows"
        return f"{self.n_centers:,} centers{leaves}"

    def scaled(self, share: float) -> Way:
        """The same for a part of the rows: centers and rows of leaves by the root of the share.

        So the error of having few centers and that of having few rows keep their proportion.
        """
        root, partition = math.sqrt(share), self.partition
        if partition is not None:
            partition = replace(partition, leaf_rows=max(2, int(root * partition.leaf_rows)))
        return self._replace(n_centers=max(1, math.ceil(root * self.n_centers)), partition=partition)


@dataclass(frozen=True)
class _Price:
    """What the error of a way is multiplied by for the time that it takes, of which so many seconds are allowed."""

    allowed: float

    def __call__(self, way: Way) -> float:
        usual = (OTHER_SECONDS + way.seconds) ** PRICE_EXPONENT * (1.0 if way.partition is None else LEAF_PRICE)
        return float(usual * max(1.0, way.seconds / self.allowed) ** PRICE_BEYOND)

    def __str__(self) -> str:
        usual, beyond = (1 - 2**-exponent for exponent in (PRICE_EXPONENT, PRICE_EXPONENT + PRICE_BEYOND))
        return (
            f"the lowest error, after time is counted in: twice the time has to lower the error by {usual:.0%}, "
            f"beyond {progress.duration(self.allowed)} by {beyond:.0%}, and leaves have to lower it by "
            f"{1 - 1 / LEAF_PRICE:.0%}"
        )


class _Tried(NamedTuple):
    """A way, its error on the rows held out, and that error with the price for it."""

    way: Way
    error: float
    priced: float


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
    """Fit a sample of the rows with leaves, and with centers alone, all in the same proportion to its root.

    Fewer centers and smaller leaves are tried too. What costs more is taken if it errs enough less.
    """
    rows, points = data.points.shape[0], data.points
    ineligible = isinstance(points, Source) or sparse.issparse(points) or device_of(points).type != "cpu"
    too_large = 8 * MATRICES * partition.leaf_rows**2 > memory_budget
    if ineligible or too_large or kernel.explicit or rows <= max(n_centers, 2 * partition.leaf_rows):
        return Trial(None, n_centers, None)
    price = _Price(allowed_seconds(rows, points.shape[1]))
    random = np.random.default_rng(SEED)
    count = min(int(SAMPLED_SHARE * rows), SAMPLED_ROWS)
    order = random.permutation(rows)
    sampled, held = np.split(order, [count])
    kept, out = (_part(data, np.sort(part)) for part in (sampled, held[:HELD_ROWS]))
    spread = _error(out, np.average(kept.Y, axis=0, weights=kept.weights))
    constant = spread or 1.0
    candidates = take(points, order[: max(n_centers, partition.centers)])
    problem = _problem(kernel, data, candidates, noise, intercept, memory_budget)
    made: dict[int, Predictor] = {}  # by the number of centers

    def attempt(way: Way) -> _Tried:
        small = way.scaled(count / rows)
        if small.n_centers not in made:
            made[small.n_centers] = _nystrom(kernel, kept, small.n_centers, noise, intercept, random, memory_budget)
        function: Callable[[AnyPoints], Array] = made[small.n_centers]
        if small.partition is not None:
            function = _leaves(kernel, kept, noise, small.partition, made[small.n_centers], memory_budget).predict
        error = _error(out, function(out.points)) / constant
        return _Tried(way, error, max(error, NOTHING_LEFT) * price(way))

    ways = ways_to_fit(partition, n_centers, problem)
    bar = progress.stage("trying centers and leaves", len(ways))
    tried = list[_Tried]()
    for way in ways:
        bar.step()
        if rows > MOST_ROWS or _promises(way, tried):  # without leaves it costs little to try all
            tried.append(attempt(way))
    if not spread or min(one.error for one in tried) > NOTHING_LEARNED:
        tried = [attempt(ways[0]._replace(n_centers=_least(n_centers), partition=None))]
    chosen = _best(tried)
    stage = Stage(
        "centers and leaves",
        f"error on {len(out.Y):,} rows of a fit to {len(kept.Y):,}, of that of a constant",
        [Candidate(f"{kernel!r}, {one.way}", noise, one.error) for one in tried],
        chosen,
        str(price),
    )
    return Trial(tried[chosen].way.partition, tried[chosen].way.n_centers, stage)


def allowed_seconds(rows: int, features: int) -> float:
    """What a solve may take without a price for it beyond the usual."""
    return ALLOWED_SECONDS + 1e-9 * ALLOWED_NS * rows * features


def ways_to_fit(partition: Partition, n_centers: int, problem: LeastSquares) -> list[Way]:
    """The ways that are tried, in order of what they cost, if there would be so many centers without a trial.

    Of centers alone, the first is as many as are allowed: more of them err less, which a sample is too small to show
    where there is much noise.

    Parameters
    ----------
    partition : Partition
        The leaves that are tried, and how many centers there are with them.
    n_centers : int
    problem : LeastSquares
        Of all rows, with as many centers as any way takes.
    """
    K, allowed = problem.K, allowed_seconds(problem.K.shape[0], problem.K.n_features)

    def with_centers(count: int) -> float:
        return expected(replace(problem, K=K.with_centers(index=slice(0, count)))).seconds

    too_many = K.shape[0] > MOST_ROWS
    parts = (*CENTER_PARTS, *((SMALLEST_PART,) if too_many else ()))
    counts = sorted({max(_least(n_centers), n_centers // part) for part in parts})
    ways = [Way(count, None, with_centers(count)) for count in counts]
    if len(ways) > 2 and ways[0].seconds < allowed < ways[-1].seconds:
        ways[-2] = _as_many_as(allowed, ways[0], ways[-1], with_centers)
    ways = ways[max(0, sum(way.seconds <= allowed for way in ways) - 1) :]
    if too_many:
        return sorted(set(ways), key=lambda way: way.seconds)
    base, fewer, less = with_centers(partition.centers), partition.leaf_rows // LIGHTER, partition.overlap / LIGHTER
    for leaves in (replace(partition, leaf_rows=max(2, fewer), overlap=less), partition):
        number, size = leaves.expected_leaves(K.shape[0])
        narrow = may_be_narrow(size, 1.0, problem.penalty * problem.total_weight, rough=K.kernel.rough)
        seconds = 1e-9 * LEAF_SECONDS * number * costs.leaf(size, K.features, narrow=narrow)
        ways.append(Way(leaves.centers, leaves, base + seconds))
    return sorted(set(ways), key=lambda way: way.seconds)


def _least(n_centers: int) -> int:
    return min(LEAST_CENTERS, n_centers)


def _as_many_as(allowed: float, fewest: Way, most: Way, seconds_of: Callable[[int], float]) -> Way:
    """The most centers, to a tenth, whose seconds are allowed."""
    low, high = fewest, most
    while high.n_centers > 1.1 * low.n_centers:
        count = math.isqrt(low.n_centers * high.n_centers)
        if count == low.n_centers:
            break
        middle = Way(count, None, seconds_of(count))
        low, high = (middle, high) if middle.seconds <= allowed else (low, middle)
    return low


def _promises(way: Way, tried: list[_Tried]) -> bool:
    """Whether a way is worth trying: not if there is nothing to learn, or if a cheaper one of its kind did not pay."""
    if not tried:
        return True
    if tried[0].error > NOTHING_LEARNED:
        return False
    if min(one.error for one in tried) <= NOTHING_LEFT:  # leaves, which are dearer than their time, may have come first
        return way.partition is None and all(one.way.partition is not None for one in tried)
    alike = [place for place, one in enumerate(tried) if (one.way.partition is None) == (way.partition is None)]
    return not alike or _best(tried[: alike[-1] + 1]) == alike[-1]


def _best(tried: list[_Tried]) -> int:
    """The first, which is the cheapest, of those that are alike."""
    priced = np.array([one.priced for one in tried])
    return int(np.argmax(priced <= (1 + ALIKE) * priced.min()))


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


def _part(data: Data, rows: Array) -> Data:
    return Data(take(data.points, rows), data.Y[rows], None if data.weights is None else data.weights[rows])


def _nystrom(
    kernel: Kernel, data: Data, count: int, noise: float, intercept: bool, random: np.random.Generator, budget: int
) -> Predictor:
    C = center_rules.select(
        "uniform", kernel, data.points, count, weights=data.weights, random=random, memory_budget=budget
    )
    problem = _problem(kernel, data, C, noise, intercept, budget)
    solution = solve(problem, choose(problem)[0])
    beta, b = as_numpy(solution.coefficients), as_numpy(solution.intercept)
    return Predictor(kernel, C, beta, b, wide=shows_in(solution), memory_budget=budget)


def _problem(kernel: Kernel, data: Data, C: AnyPoints, noise: float, intercept: bool, budget: int) -> LeastSquares:
    K = KernelMatrix(kernel, Points(data.points), Points(C), memory_budget=budget)
    Y = torch.from_numpy(np.ascontiguousarray(data.Y)).to(dtype=K.dtype)
    weights = None if data.weights is None else torch.from_numpy(data.weights)[:, None].to(dtype=K.dtype)
    total = float(len(Y) if data.weights is None else data.weights.sum())
    return LeastSquares(K, Y, noise / total, weights, intercept)


def _error(data: Data, values: Array) -> float:
    return float(np.average(np.square(data.Y - values).mean(1), weights=data.weights))
