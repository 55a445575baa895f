"""Tuning a problem: an objective, a way to evaluate it, an optimizer, and the record of what they did."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.solvers import LeastSquares

from .exact import Exact
from .journal import Journal
from .objectives import OBJECTIVES, Method, Objective
from .optimizers import Point, Search, adam, lbfgs
from .parameters import Parameters
from .trace import Step, Trace

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tuned:
    """A problem with the best penalty, kernel and centers that were found, and how they were found.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> tuned = gf.tuning.tune(problem, "gcv", steps=3)
    >>> tuned.problem.penalty == tuned.trace.steps[tuned.trace.best].penalty
    True
    """

    problem: LeastSquares
    trace: Trace


def tune(
    problem: LeastSquares,
    objective: str | Objective = "gcv",
    *,
    method: Method | None = None,
    optimizer: str = "lbfgs",
    steps: int = 50,
    seconds: float | None = None,
    learning_rate: float = 0.05,
    patience: int = 10,
    tolerance: float = 1e-4,
    penalty: bool = True,
    kernel: bool = True,
    centers: bool = False,
    per_feature: bool = True,
    free: bool = True,
    shrinkage: float = 0.0,
    validate: Callable[[LeastSquares], float] | None = None,
    callback: Callable[[Step], bool] | None = None,
    resume: Trace | None = None,
    journal: Journal | None = None,
) -> Tuned:
    """Minimize an objective over the penalty, the kernel's parameters and the centers, together, by gradient.

    Parameters
    ----------
    problem : LeastSquares
        Where to start. Targets should have mean zero, and unit variance for "creg" and "proposed".
    objective : str or Objective
        "holdout", "kfold", "loocv", "gcv", "creg", "sgpr", "proposed", or one with parameters of its own.
    method : Exact or Stochastic
        How it is evaluated; exactly if not given.
    optimizer : "lbfgs" or "adam"
    steps, seconds
        Budgets; the best point so far is kept when they end.
    learning_rate, patience
        Of Adam: which stops when the objective has not fallen for that many steps.
    tolerance : float
        Of L-BFGS: which stops when the objective falls by less than this part of itself.
    penalty, kernel, centers : bool
        What is tuned. The penalty and positive parameters of the kernel move on a logarithmic scale.
    per_feature : bool
        Whether length scales that are one per feature move one by one, or all by the same factor.
    free : bool
        Whether parameters of any sign, such as the matrix of a `Mapped` kernel, are tuned too.
    shrinkage : float
        The price of moving the logarithm of one of the kernel's positive parameters by one from where it starts, as a
        part of the objective: parameters that hardly matter stay where they are. For objectives that are errors.
    validate : callable (LeastSquares) -> float, optional
        An error to record at each step.
    callback : callable (Step) -> bool, optional
        Called after each step; True ends the search.
    resume : Trace, optional
        Of an earlier run of the same problem, to go on from.
    journal : Journal, optional
        Of a run that was cut short, to repeat it without its evaluations, and to write down further ones.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(3 * X), penalty=1e-2)
    >>> tuned = gf.tuning.tune(problem, "gcv")
    >>> tuned.trace.values[-1] < 0.1 * tuned.trace.values[0]
    True
    """
    goal = OBJECTIVES[objective] if isinstance(objective, str) and objective in OBJECTIVES else objective
    if not isinstance(goal, Objective):
        raise ValueError(f"objective must be an Objective or one of {sorted(OBJECTIVES)}, got {objective!r}")
    if optimizer not in ("adam", "lbfgs"):
        raise ValueError(f"optimizer must be 'adam' or 'lbfgs', got {optimizer!r}")
    if shrinkage and not goal.positive:
        raise ValueError(f"shrinkage is a part of an error, which {goal.name!r} is not: leave it at 0")
    way = Exact() if method is None else method
    parameters = Parameters(
        problem, penalty=penalty, kernel=kernel, centers=centers, per_feature=per_feature, free=free
    )
    trace = (
        Trace(goal.name, optimizer, total_weight=problem.total_weight)
        if resume is None
        else dataclasses.replace(resume, steps=list(resume.steps))
    )
    state = dict(trace.state)
    if trace.objective != goal.name or trace.optimizer != optimizer:
        raise ValueError(f"resume: the trace is one of {trace.objective} by {trace.optimizer}")
    if "best" in state and state["best"].shape != parameters.start.shape:
        raise ValueError("resume: the trace is that of another problem")
    began, earlier = time.monotonic(), trace.seconds

    def function(theta: Array) -> Point:
        found = goal.evaluate(parameters.at(theta), way)
        assert found.gradient is not None
        point = Point(found.value, parameters.gradient(theta, found.gradient), found.terms)
        return parameters.shrunk(theta, point, shrinkage) if shrinkage else point

    def accept(theta: Array, point: Point) -> bool:
        lam, kernel_, _ = parameters.read(theta)
        now = earlier + time.monotonic() - began
        error = None if validate is None else validate(parameters.at(theta))
        trace.steps.append(Step(now, point.value, point.details, lam, kernel_.parameters(), error))
        return callback is not None and bool(callback(trace.steps[-1]))

    answer = function if journal is None else journal.recorded(function)
    search = Search(answer, parameters.low, parameters.high, steps, seconds, accept)
    if "best" in state:
        search.best, search.best_value = state["best"], float(state["best_value"][()])
    start = state.get("best", parameters.start)
    if len(start) == 0:
        if (only := search(start)) is not None:
            accept(start, only)
        search.message = "there is nothing to tune"
    elif optimizer == "adam":
        adam(search, start, learning_rate=learning_rate, patience=patience, state=state)
    else:
        lbfgs(search, start, tolerance=tolerance, logarithmic=goal.positive)
    if search.best is None:
        raise FloatingPointError(
            f"the objective {goal.name!r} has no value at the start: raise the penalty or the length scale"
        )
    if search.best_point is not None and search.best_value < min(trace.values, default=np.inf):
        accept(search.best, search.best_point)  # a point of a line search that was left from
    trace.evaluations += search.evaluations
    trace.message = search.message
    trace.state = state | {"best": search.best, "best_value": np.asarray(search.best_value)}
    return Tuned(parameters.at(search.best), trace)
