"""Adam and L-BFGS on functions that may fail, with budgets, that always come back with the best point they saw.

Where each evaluation is a sample, no point is known to be best: the mean of the last ones takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import optimize

Array = np.ndarray[Any, Any]

FAILURES = (ArithmeticError, np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]  # PyTorch's stubs lack it
AVERAGED = 0.4  # the share of the steps on samples, of the last ones, whose mean is taken
RETREATS = 8  # times that Adam may go back to the best point with half the step


class Point(NamedTuple):
    value: float
    gradient: Array
    details: Any


@dataclass
class Search:
    """A function to minimize, the budgets, and the best point so far.

    Parameters
    ----------
    function : callable
        θ ↦ Point; raises one of FAILURES where it has no value.
    low, high : arrays
        Bounds of θ.
    steps, seconds
        Budgets, `seconds` being None for no limit.
    accept : callable (θ, Point) -> bool
        Told of each step taken; True ends the search.
    """

    function: Callable[[Array], Point]
    low: Array
    high: Array
    steps: int
    seconds: float | None
    accept: Callable[[Array, Point], bool]
    best: Array | None = None
    best_value: float = np.inf
    best_point: Point | None = None
    evaluations: int = 0
    message: str = ""
    began: float = field(default_factory=lambda: time.monotonic())

    def __call__(self, theta: Array) -> Point | None:
        """The function at θ, or None where it fails or is not finite."""
        self.evaluations += 1
        try:
            point = self.function(theta)
        except FAILURES:
            return None
        if not np.isfinite(point.value) or not np.isfinite(point.gradient).all():
            return None
        if point.value < self.best_value:
            self.best, self.best_value, self.best_point = theta.copy(), point.value, point
        return point

    @property
    def exhausted(self) -> bool:
        return self.seconds is not None and self.evaluations > 0 and time.monotonic() - self.began >= self.seconds


class EndedError(Exception):
    """Raised inside a line search to leave it."""


def lbfgs(search: Search, start: Array, *, tolerance: float = 1e-4, logarithmic: bool = False) -> None:
    """Limited-memory BFGS inside the bounds, until the value falls by less than `tolerance` of itself.

    If `logarithmic`, the logarithm of the value is what is minimized, so that steps do not depend on its scale.
    """
    worst = -np.inf
    last: list[tuple[Array, Point]] = []

    def function(theta: Array) -> tuple[float, Array]:
        nonlocal worst
        if search.exhausted or search.evaluations > 3 * search.steps:
            raise EndedError("the time is up" if search.exhausted else "the line search found no way down")
        point = search(theta)
        if point is None:  # a wall, that the line search comes back from
            if not last:
                raise EndedError("the objective has no value at the start")
            return worst + 10 * (1 + abs(worst)), np.zeros_like(theta)
        if not last and search.accept(theta, point):
            raise EndedError("a callback asked for it")
        last.append((theta.copy(), point))
        value, gradient = point.value, point.gradient
        if logarithmic:
            if value < np.finfo(float).eps ** 2:
                raise EndedError("the objective is zero, to rounding")
            value, gradient = np.log(value), gradient / value
        worst = max(worst, value)
        return value, gradient

    def took(theta: Array) -> None:
        point = next(p for t, p in reversed(last) if np.array_equal(t, theta))
        del last[:-1]
        if search.accept(theta, point):
            raise EndedError("a callback asked for it")

    try:
        result = optimize.minimize(
            function,
            np.clip(start, search.low, search.high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(search.low, search.high, strict=True)),
            callback=took,
            options={"maxiter": search.steps, "ftol": tolerance, "gtol": 1e-8, "maxfun": 10**9},
        )
        out_of_steps = result.nit >= search.steps
        search.message = f"stopped after {result.nit} steps" if out_of_steps else "the objective has settled"
    except EndedError as end:
        search.message = str(end)


def adam(
    search: Search, start: Array, *, learning_rate: float = 0.05, patience: int = 10, state: dict[str, Array]
) -> None:
    """Adam, until the objective has not reached a new low for `patience` steps.

    Where the objective has no value, the search goes back to its best point with half the step and a blank memory.
    `state` is read at the start and holds what is needed to go on at the end.
    """
    theta = np.clip(state.get("theta", start), search.low, search.high)
    first, second = state.get("first", np.zeros_like(theta)), state.get("second", np.zeros_like(theta))
    count = int(state.get("count", np.zeros(()))[()])
    rate = float(state.get("rate", np.asarray(learning_rate))[()])
    waited = retreats = 0
    taken = int("theta" in state)  # the step there was taken, but not looked at
    while True:
        if taken > search.steps or search.exhausted:
            search.message = "the time is up" if search.exhausted else f"stopped after {search.steps} steps"
            break
        lowest = search.best_value
        point = search(theta)
        if point is None:
            retreats += 1
            if search.best is None or retreats > RETREATS:
                search.message = "the objective has no value near here"
                break
            theta, rate, count = search.best.copy(), rate / 2, 0
            first, second = np.zeros_like(theta), np.zeros_like(theta)
            point = search(theta)
            if point is None:
                search.message = "the objective has no value near here"
                break
        elif search.accept(theta, point):
            search.message = "a callback asked for it"
            break
        waited = 0 if search.best_value < lowest else waited + 1
        if waited >= patience:
            search.message = f"the objective has not fallen for {patience} steps"
            break
        count, taken = count + 1, taken + 1
        first = 0.9 * first + 0.1 * point.gradient
        second = 0.999 * second + 0.001 * point.gradient**2
        corrected = first / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-12)
        theta = np.clip(theta - rate * corrected, search.low, search.high)
    state |= {
        "theta": theta,
        "first": first,
        "second": second,
        "count": np.asarray(count),
        "rate": np.asarray(rate),
    }


def averaged_adam(search: Search, start: Array, *, learning_rate: float) -> Array:
    """Adam on a function of which each evaluation is a sample: steps on its logarithm, and the mean of the last points.

    The rate falls to zero in the second half of the steps. Samples that have no value are passed over.
    """
    theta = np.clip(start, search.low, search.high)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    last: list[Array] = []
    count = 0
    for step in range(search.steps):
        if search.exhausted:
            search.message = "the time is up"
            break
        point = search(theta)
        if point is None or not point.value > 0:
            continue
        if search.accept(theta, point):
            search.message, last = "a callback asked for it", last or [theta]
            break
        count, slope = count + 1, point.gradient / point.value
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        corrected = first / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.99**count)) + 1e-12)
        rate = learning_rate * min(1.0, 2 * (1 - step / search.steps))
        theta = np.clip(theta - rate * corrected, search.low, search.high)
        last = [*(last if step > (1 - AVERAGED) * search.steps else []), theta]
    else:
        search.message = f"the mean of the last of {search.steps} steps"
    if not last:
        raise FloatingPointError("the objective has no value at the start: raise the penalty or the length scale")
    return np.asarray(np.mean(last, axis=0))
