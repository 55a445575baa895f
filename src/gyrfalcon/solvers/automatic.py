"""Which solver: decided from the size of the problem by a cost model, and said in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .direct import direct, exact
from .falkon import falkon
from .newton import newton
from .problem import LeastSquares, Problem
from .risk import Risk
from .solution import Callback, Solution

SOLVERS: dict[str, Callable[..., Solution]] = {"direct": direct, "exact": exact, "falkon": falkon, "newton": newton}
TOLERANCE = {"direct": 0.0, "exact": 0.0, "falkon": 1e-3, "newton": 1e-6}


def choose(problem: Problem, max_iterations: int = 100) -> tuple[str, str]:
    """The name of the solver that is expected to be fastest, and why."""
    if isinstance(problem, Risk):
        return "newton", f"the {problem.loss.name} loss is not squared"
    n, m = problem.K.shape
    if problem.K.C is problem.K.X and n <= 4000:
        return "exact", ""
    return ("direct", "") if m < 300 else ("falkon", "")


def solve(
    problem: Problem,
    name: str,
    *,
    tolerance: float,
    max_iterations: int,
    start: tuple[Tensor, Tensor] | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve with the named solver; those that do not iterate ignore what is about iterations."""
    if name == "newton":
        risk = problem if isinstance(problem, Risk) else _as_risk(problem)
        return newton(risk, tolerance=tolerance, max_iterations=max_iterations, start=start, callback=callback)
    if not isinstance(problem, LeastSquares):
        raise ValueError(f"solver={name!r} solves least squares only: take 'newton' or 'auto' for this loss")
    if name == "falkon":
        first = None if start is None else start[0]
        return falkon(problem, tolerance=tolerance, max_iterations=max_iterations, start=first, callback=callback)
    return SOLVERS[name](problem)


def _as_risk(problem: Any) -> Risk:
    from gyrfalcon.losses import Squared

    return Risk(problem.K, problem.Y, problem.penalty, Squared(), problem.weights, problem.intercept)
