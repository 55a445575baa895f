"""Which solver: decided from the size of the problem by a cost model, and said in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.losses import Squared

from . import rates
from .direct import direct, exact
from .eigenpro import eigenpro
from .falkon import falkon, sample_rows
from .filters import kernel_cg, nu_method, nytro
from .newton import newton
from .problem import LeastSquares, Problem, directions_of, features_of
from .risk import Risk
from .sgd import sgd
from .solution import Callback, Keep, Snapshot, Solution
from .stopping import EarlyStopping

STOPPED_EARLY: dict[str, Callable[..., Solution]] = {"kernel_cg": kernel_cg, "nu_method": nu_method, "nytro": nytro}
SOLVERS: dict[str, Callable[..., Solution]] = {
    "direct": direct,
    "eigenpro": eigenpro,
    "exact": exact,
    "falkon": falkon,
    "newton": newton,
    "sgd": sgd,
    **STOPPED_EARLY,
}
TOLERANCE = dict.fromkeys(SOLVERS, 0.001) | {"direct": 0.0, "exact": 0.0, "newton": 1e-6}
UNPENALISED = (*STOPPED_EARLY, "sgd")  # the number of iterations regularises: they need no penalty
STEPS = (1 / 16, 1 / 2, 4.0)  # of sgd, over max k(x, x): the best is chosen on rows held out
HARD, REFINED = 30, 2  # iterations that tell of coefficients so large that solves go on in float64; how much longer


def choose(problem: Problem, max_iterations: int = 100) -> tuple[str, str]:
    """The name of the solver that is expected to be fastest, and why.

    >>> import torch, gyrfalcon as gf
    >>> X = torch.randn(1000, 2)
    >>> gf.solvers.choose(gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X), X, 1e-3))
    ('exact', 'all 1000 points are centres')
    """
    if not isinstance(problem, LeastSquares):
        assert isinstance(problem, Risk)
        if not problem.loss.smooth:
            return "sgd", f"the {problem.loss.name} loss has kinks"
        return "newton", f"the {problem.loss.name} loss is not squared"
    seconds = {"direct": direct_seconds(problem), "falkon": falkon_seconds(problem, max_iterations)}
    if problem.K.C is problem.K.X:
        seconds["exact"] = exact_seconds(problem)
        if seconds["exact"] <= min(seconds.values()):
            return "exact", f"all {problem.K.shape[0]} points are centres"
    name = min(seconds, key=seconds.__getitem__)
    words = ", ".join(f"{solver} {time:.2g} s" for solver, time in sorted(seconds.items()))
    return name, f"expected on two cores: {words}"


def exact_seconds(problem: LeastSquares) -> float:
    n = problem.K.shape[0]
    return 1e-9 * ((n**3 / 3 + 2 * n**2 * problem.Y.shape[1]) * rates.flop(n) + n**2 * rates.STORED)


def direct_seconds(problem: LeastSquares) -> float:
    """One pass, and four times m³ of factoring."""
    n, m = problem.K.shape
    moments = rates.whitened_gram(n, m, features_of(problem.K.X))
    return 1e-9 * (moments + 4 * m**3 * rates.flop(m) + 4 * rates.PASS)


def falkon_seconds(problem: LeastSquares, max_iterations: int) -> float:
    n, m = problem.K.shape
    dtype, features, outputs = problem.K.dtype, features_of(problem.K.X), problem.Y.shape[1]
    made = kept = rates.entry(features, dtype)
    output, filled = rates.OUTPUT, 0.0
    if problem.K.plan().cache:
        kept, output, filled = rates.KEPT, rates.KEPT_OUTPUT, rates.STORED
    a_pass = n * m * (kept + output * (outputs - 1)) + rates.PASS
    triangles = 4 * m**2 * (outputs + 3) * rates.flop(m)  # memory, not arithmetic, bounds solves with few columns
    factors = 2 * m**3 * rates.flop(m) + rates.PASS
    directions = directions_of(problem.K)
    sample = sample_rows(n, m, features, dtype, problem.penalty, directions)
    if sample is not None:
        factors += rates.whitened_gram(sample, m, features) + rates.SAMPLING
    iterations = rates.iterations(n, m, directions, problem.penalty, (sample or 0) // max(1, m))
    if dtype == torch.float32 and rates.iterations(n, m, directions, problem.penalty) > HARD:
        iterations *= REFINED
    return 1e-9 * (min(max_iterations, iterations) * (a_pass + triangles) + n * m * (2 * made + filled) + factors)


def solve(
    problem: Problem,
    name: str,
    *,
    tolerance: float,
    max_iterations: int,
    start: tuple[Tensor, Tensor] | None = None,
    callback: Callback | None = None,
    resume: Snapshot | None = None,
    keep: Keep | None = None,
    seed: int = 0,
) -> Solution:
    """Solve with the named solver; those that do not iterate ignore what is about iterations.

    The seed decides the order of rows, the samples that eigenpro makes and the rows that those stopped early hold out.
    """
    iterations: dict[str, Any] = {
        "tolerance": tolerance,
        "max_iterations": max_iterations,
        "callback": callback,
        "resume": resume,
        "keep": keep,
    }
    if name == "newton":
        return _above_floor(problem, newton(_as_risk(problem), start=start, **iterations))
    if name in UNPENALISED and problem.K.shape[0] < 2:
        raise ValueError(f"solver={name!r} holds rows out, which needs two different ones: choose another solver")
    rule = EarlyStopping(tolerance=min(tolerance, 0.5), max_iterations=max_iterations, random_state=seed)
    if name == "sgd":
        how: dict[str, Any] = {"start": start, "callback": callback, "resume": resume, "keep": keep}
        risk = _as_risk(problem)
        peak = float(risk.K.prior_diagonal().max()) or 1.0
        steps = [min(step / peak, 0.25 / max(risk.penalty, 1e-300)) for step in STEPS]
        found = sgd(risk, rule, step=steps, decay=0.5, averaging="polynomial", random_state=seed, **how)
        return _above_floor(problem, found)
    if not isinstance(problem, LeastSquares):
        raise ValueError(f"solver={name!r} solves least squares only: take 'newton' or 'auto' for this loss")
    if name in STOPPED_EARLY:
        return STOPPED_EARLY[name](problem, rule, callback=callback)
    if TOLERANCE[name] > 0:
        drawn = {"random_state": seed} if name == "eigenpro" else {}
        return SOLVERS[name](problem, start=None if start is None else start[0], **iterations, **drawn)
    return SOLVERS[name](problem)


def _as_risk(problem: Problem) -> Risk:
    if isinstance(problem, Risk):
        return problem
    return Risk(problem.K, problem.Y, problem.penalty, Squared(), problem.weights, problem.intercept)


def _above_floor(problem: Problem, solution: Solution) -> Solution:
    """With the floor of least squares, which a risk does not have, in the objective."""
    if not isinstance(problem, LeastSquares):
        return solution
    objective = (np.array(solution.record.objective) + problem.floor).tolist()
    return dataclasses.replace(solution, record=dataclasses.replace(solution.record, objective=objective))
