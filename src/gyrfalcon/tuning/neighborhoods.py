"""Kernel and noise once more, by rows that lie as close together as all rows do.

Rows drawn at random from many lie far apart. Where rows come in groups, such as years of one household or versions of
one part, nearly all others of a group are missing from such a sample: what they tell of each other looks like noise,
and what tells groups apart looks as if it did not matter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel, Warped, inputs_of
from gyrfalcon.partition.coordinates import Coordinates, coordinates_of
from gyrfalcon.partition.directions import leading_direction
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.threads import one_thread_each

from .batches import tune_on_batches
from .full import left_out
from .judging import Judge
from .objectives import LeaveOneOut
from .optimizers import FAILURES
from .parameters import length_scales
from .rows import Data, noise_of, shuffled
from .settings import Tuning
from .stages import LEAST_NOISE, Run
from .trace import Candidate, Stage, Trace
from .tuner import Tuned

COUNT, ROWS = 16, 300  # neighborhoods, every other of which is held out, and the rows of each at most
LEAST_SHARE, LEAST_COUNT = 1 / 5, 4  # of different rows in a neighborhood, and of neighborhoods that have as many
ROWS_PER_SCALE = 15  # to search with, at least: of more features, steps take too long and fit what is not there
SHORTER = 0.07  # times the length scales so far: where the search begins
STEPS, RATE = 32, 0.3  # of the search, and the rate of Adam in logarithms
MOST_HELD = 1000  # rows that fits to all others predict
WORTH_IT = 0.96  # of the error, that the search has to come down to
SURE = 2.5  # standard errors of the mean fall, by which it has to fall


class Advice(NamedTuple):
    """A kernel and a noise, whether they are better than what there was, and the record of that."""

    kernel: Kernel
    noise: float
    better: bool
    stage: Stage


def neighborhoods(kernel: Kernel, points: Any, weights: Array | None = None) -> list[Array]:
    """The rows of some leaves of a tree of median splits: of all parts of the data, and each as dense as these are.

    Parameters
    ----------
    kernel : Kernel
        Splits are made in the units of its length scales.
    points : array or tensor of shape (n, d)
    weights : array of shape (n,), optional
        Rows without weight are in none.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.tuning.neighborhoods import neighborhoods
    >>> parts = neighborhoods(gf.kernels.Gaussian(1.0), np.random.default_rng(0).normal(size=(10_000, 2)))
    >>> len(parts), max(map(len, parts)) <= 300
    (16, True)
    """
    inputs = as_numpy(inputs_of(kernel, points))
    order = shuffled(inputs)
    rows = order if weights is None else order[weights[order] > 0]
    return _leaves(inputs, coordinates_of(kernel, inputs), rows, COUNT)


def _leaves(inputs: Array, coordinates: Coordinates, rows: Array, wanted: int) -> list[Array]:
    """So many leaves below some rows, or all that there are; both halves of a split have about as many of them."""
    if len(rows) <= ROWS:
        return [np.sort(rows)]
    direction = leading_direction(inputs[rows], coordinates)
    order = rows[np.argsort(inputs[rows] @ direction, kind="stable")]
    halves = np.array_split(order, 2)
    first = len(rows) % 2  # where one leaf is more: as good as any other choice, and the same for the same rows
    shares = (wanted + 1 - first) // 2, (wanted + first) // 2
    return [
        leaf
        for half, share in zip(halves, shares, strict=True)
        if share
        for leaf in _leaves(inputs, coordinates, half, share)
    ]


@one_thread_each
def ask_neighbors(
    kernel: Kernel,
    noise: float,
    parts: Sequence[Data],
    *,
    fixed_penalty: bool,
    memory_budget: int,
    correction: bool = False,
    worth: float = WORTH_IT,
) -> Advice | None:
    """The kernel and the noise by which rows are predicted best that are left out among their neighbors.

    They are tuned on every other neighborhood, from shorter length scales, and judged by the rest. They are better if
    the error falls enough, and by more than chance. None if too few rows are different.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        The penalty times the sum of the weights.
    parts : sequence of Data
        Neighborhoods.
    fixed_penalty : bool
        Whether the noise stays what it is.
    memory_budget : int
    correction : bool
        Whether the targets are what a model leaves: the error has to fall from that of predicting zero then, and not
        from that of the kernel and the noise as they are.
    worth : float
        The share of that error that may be left at most.
    """
    inner = kernel.kernel if isinstance(kernel, Warped) else kernel
    mapped = [dataclasses.replace(part, points=inputs_of(kernel, part.points)).merged() for part in parts]
    problems = [part.problem(inner, None, noise, memory_budget) for part in mapped if len(part.Y) >= LEAST_SHARE * ROWS]
    if len(problems) < LEAST_COUNT:
        return None
    searched, judged = problems[::2], problems[1::2]
    if sum(len(problem.Y) for problem in searched) < ROWS_PER_SCALE * searched[0].K.n_features:
        return None
    try:
        found, less = _searched(searched, inner, noise, fixed_penalty)
        after = _left_out(judged, found, less)
        before = _squares([problem.Y for problem in judged]) if correction else _left_out(judged, inner, noise)
    except FAILURES:  # a function that does not change, or a kernel that is not positive
        return None
    weights = np.concatenate([_weights(problem) for problem in judged])
    first, last = (float(np.average(squares, weights=weights)) for squares in (before, after))
    count = weights.sum() ** 2 / np.square(weights).sum()  # of rows as heavy as each other that tell as much
    chance = math.sqrt(np.average((before - after - (first - last)) ** 2, weights=weights) / count)
    better = bool(first - last > max(SURE * chance, (1 - worth) * first))
    tuned = dataclasses.replace(kernel, kernel=found) if isinstance(kernel, Warped) else found
    tried = [
        Candidate("no correction" if correction else repr(kernel), noise, first),
        Candidate(repr(tuned), less, last),
    ]
    stage = Stage(
        "neighbors",
        f"squared error of {len(weights):,} rows, each left out among its neighbors",
        tried,
        int(better),
        f"tuned on other neighborhoods; taken if it errs less by {1 - worth:.0%} and by {SURE:g} standard errors",
    )
    return Advice(tuned, less, better, stage) if better else Advice(kernel, noise, better, stage)


@one_thread_each
def confirmed(before: tuple[Kernel, float], after: tuple[Kernel, float], data: Data, memory_budget: int) -> Stage:
    """Whether fits to all rows but a fifth predict these better with another kernel and another noise.

    What a neighborhood lacks and all rows have, which is most of what they have in common, favors short length scales.

    Parameters
    ----------
    before, after : (Kernel, float)
        Each of the two, with its noise.
    data : Data
        All rows, each of which is a center.
    memory_budget : int
    """
    data = data.merged()
    order = shuffled(as_numpy(data.points))
    held = min(MOST_HELD, len(order) // 5)
    judge = Judge(data, order[:-held], order[-held:], (), memory_budget)
    tried = []
    for kernel, noise in (before, after):
        judged = judge(Tuned(data.problem(kernel, None, noise, memory_budget), Trace()), 0, noise)
        tried.append(Candidate(repr(kernel), noise, judged.error))
    return Stage(
        "neighbors and all others",
        f"{judge.criterion}, of that of a constant",
        tried,
        int(tried[1].value < tried[0].value),
        "the lower error",
    )


def _searched(
    problems: Sequence[LeastSquares], kernel: Kernel, noise: float, fixed_penalty: bool
) -> tuple[Kernel, float]:
    """Length scales, feature by feature, and noise: each step looks at the next neighborhood."""
    shorter = {name: (SHORTER * scale).tolist() for name, scale in length_scales(kernel).items()}
    entries = max(len(problem.Y) ** 2 for problem in problems)
    run = Run(Tuning(), LeaveOneOut(), entries, fixed_penalty, False, lambda _: False, None)

    def batch(start: LeastSquares, number: int) -> LeastSquares:
        return _at(problems[number % len(problems)], start.K.kernel, noise_of(start))

    start = _at(problems[0], kernel.with_parameters(shorter), noise)
    tuned = tune_on_batches(start, batch, run, steps=STEPS, learning_rate=RATE, shrinkage=0.0).problem
    return tuned.K.kernel, max(noise_of(tuned), LEAST_NOISE)


def _left_out(problems: Sequence[LeastSquares], kernel: Kernel, noise: float) -> Array:
    """The squared errors of rows, each left out of its neighborhood."""
    return _squares([left_out(_at(problem, kernel, noise)) for problem in problems])


def _squares(errors: Sequence[Any]) -> Array:
    return np.concatenate([np.square(as_numpy(part, np.float64)).mean(1) for part in errors])


def _weights(problem: LeastSquares) -> Array:
    return np.ones(len(problem.Y)) if problem.weights is None else as_numpy(problem.weights, np.float64)[:, 0]


def _at(problem: LeastSquares, kernel: Kernel, noise: float) -> LeastSquares:
    return problem.at(kernel=kernel, penalty=noise / problem.total_weight)
