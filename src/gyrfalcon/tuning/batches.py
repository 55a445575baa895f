"""Tuning with other rows at each step: what many small fits have in common, and no fit to the rows of a few."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.solvers import LeastSquares

from .optimizers import Point, Search, averaged_adam
from .parameters import Parameters
from .rows import Data, noise_of
from .stages import Run
from .trace import Step, Trace
from .tuner import Tuned

SEED = 0  # of the order in which rows are taken: the same rows, the same result


@dataclass(frozen=True)
class Batches:
    """Rows that are taken so many at a time, all of them before any is taken again."""

    data: Data
    size: int
    memory_budget: int

    def __call__(self, start: LeastSquares, number: int) -> LeastSquares:
        """The problem that the rows of a batch pose, with the kernel and the noise of `start`."""
        rows = len(self.data.Y)
        each = max(1, rows // self.size)
        order = np.random.default_rng((SEED, number // each)).permutation(rows)
        first = number % each * self.size
        part = self.data.at(np.sort(order[first : first + self.size]))
        return part.problem(start.K.kernel, None, noise_of(start), self.memory_budget)


def tune_on_batches(
    start: LeastSquares,
    batches: Callable[[LeastSquares, int], LeastSquares],
    run: Run,
    *,
    steps: int,
    learning_rate: float,
    shrinkage: float,
) -> Tuned:
    """Minimize the mean of an objective over batches, by steps that each look at one.

    Parameters
    ----------
    start : LeastSquares
        Its kernel and noise are where to start; what is found is returned with its rows.
    batches : callable (LeastSquares, int) -> LeastSquares
        The problem that a batch of that number poses with the kernel and the noise of another.
    run : Run
        The objective and what of the problem is fixed.
    steps : int
    learning_rate : float
        Of Adam, in logarithms; it falls to zero in the second half of the steps.
    shrinkage : float
        As of `tune`.
    """
    parameters = Parameters(start, penalty=not run.fixed_penalty, kernel=not run.fixed_kernel)
    trace = Trace(run.objective.name, "batches", total_weight=start.total_weight)
    began = time.monotonic()

    def function(theta: Array) -> Point:
        problem = batches(start, search.evaluations - 1)
        return _point(parameters, theta, problem, run, shrinkage)

    def accept(theta: Array, point: Point) -> bool:
        penalty, kernel, _ = parameters.read(theta)
        trace.steps.append(
            Step(time.monotonic() - began, point.value, point.details, penalty, kernel.parameters(), None)
        )
        return run.callback(trace.steps[-1])

    answer = function if run.journal is None else run.journal.recorded(function)
    seconds = None if run.deadline is None else max(0.0, run.deadline - began)
    search = Search(answer, parameters.low, parameters.high, steps, seconds, accept)
    mean = averaged_adam(search, parameters.start, learning_rate=learning_rate)
    penalty, kernel, _ = parameters.read(mean)
    trace.evaluations, trace.message = search.evaluations, search.message
    return Tuned(start.at(kernel=kernel, penalty=penalty), trace)


def _point(parameters: Parameters, theta: Array, problem: LeastSquares, run: Run, shrinkage: float) -> Point:
    """The objective of a batch at the noise and the kernel of θ, which has the penalty of the rows at the start."""
    ratio = parameters.problem.total_weight / problem.total_weight
    penalty, kernel, _ = parameters.read(theta)
    found = run.objective.evaluate(problem.at(kernel=kernel, penalty=penalty * ratio), run.method)
    assert found.gradient is not None
    gradient = found.gradient._replace(penalty=found.gradient.penalty * ratio)
    return parameters.shrunk(theta, Point(found.value, parameters.gradient(theta, gradient), found.terms), shrinkage)
