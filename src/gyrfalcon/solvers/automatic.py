"""Which solver: decided from the size of the problem by a cost model, and said in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.losses import Squared

from .direct import direct, exact
from .eigenpro import eigenpro
from .falkon import falkon
from .newton import newton
from .problem import LeastSquares, Problem
from .risk import Risk
from .solution import Callback, Keep, Snapshot, Solution

SOLVERS: dict[str, Callable[..., Solution]] = {
    "direct": direct,
    "eigenpro": eigenpro,
    "exact": exact,
    "falkon": falkon,
    "newton": newton,
}
TOLERANCE = {"direct": 0.0, "eigenpro": 1e-3, "exact": 0.0, "falkon": 1e-3, "newton": 1e-6}


# Nanoseconds on two cores, from `python -m benchmarks choice`. Only ratios matter: machines may differ by a factor.
ENTRY = {torch.float32: 0.3, torch.float64: 0.75}  # of K, made in passing
FEATURE = {torch.float32: 0.021, torch.float64: 0.036}  # more for each feature
OUTPUT = {torch.float32: 0.2, torch.float64: 0.27}  # more for each further output
KEPT, KEPT_OUTPUT = 2.2, 1.4  # an entry of a K that is kept, and each further output
PASS = 1.5e6  # of every pass, whatever its size
STORED = 2.0  # an entry that is written down
FLOP = 0.0154  # in large products of float64 matrices
SMALL_PRODUCTS = 300  # the size at which they reach half of that


def choose(problem: Problem, max_iterations: int = 100) -> tuple[str, str]:
    """The name of the solver that is expected to be fastest, and why.

    >>> import torch, gyrfalcon as gf
    >>> X = torch.randn(1000, 2)
    >>> gf.solvers.choose(gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X), X, 1e-3))
    ('exact', 'all 1000 points are centres')
    """
    if not isinstance(problem, LeastSquares):
        assert isinstance(problem, Risk)
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
    return (n**3 / 3 + 2 * n**2 * problem.Y.shape[1]) * _flop(n) + n**2 * STORED * 1e-9


def direct_seconds(problem: LeastSquares) -> float:
    """Two products of n × m by m × m, less the half that symmetry saves, and four times m³ of factoring."""
    n, m = problem.K.shape
    entry = ENTRY[torch.float64] + FEATURE[torch.float64] * _features(problem) + STORED
    return n * m * entry * 1e-9 + (2 * n * m**2 + 4 * m**3) * _flop(m)


def falkon_seconds(problem: LeastSquares, max_iterations: int) -> float:
    n, m = problem.K.shape
    dtype, features, outputs = problem.K.dtype, _features(problem), problem.Y.shape[1]
    made = ENTRY[dtype] + FEATURE[dtype] * features
    entry, output = (KEPT, KEPT_OUTPUT) if problem.K.plan().cache else (made, OUTPUT[dtype])
    a_pass = (n * m * (entry + output * (outputs - 1)) + PASS) * 1e-9
    iterations = min(max_iterations, expected_iterations(features, problem.penalty))
    triangles = 4 * m**2 * (outputs + 3) * _flop(m)  # memory, not arithmetic, bounds solves with few columns
    return iterations * (a_pass + triangles) + 2 * n * m * made * 1e-9 + 2 * m**3 * _flop(m)


def expected_iterations(features: float, penalty: float) -> float:
    """From experience: more where the spectrum falls fast, with few features and small penalties."""
    digits = np.log10(1 / max(penalty, 1e-12))
    return float((8 + 85 * max(features, 1) ** -0.6) * np.clip(digits / 6, 0.3, 2.0))


def _features(problem: LeastSquares) -> float:
    X = problem.K.X
    return float(X.nnz / X.shape[0]) if sparse.issparse(X) else float(X.shape[1])


def _flop(size: int) -> float:
    return FLOP * 1e-9 * (1 + SMALL_PRODUCTS / max(1, size))


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
) -> Solution:
    """Solve with the named solver; those that do not iterate ignore what is about iterations."""
    iterations: dict[str, Any] = {
        "tolerance": tolerance,
        "max_iterations": max_iterations,
        "callback": callback,
        "resume": resume,
        "keep": keep,
    }
    if name == "newton":
        risk = problem if isinstance(problem, Risk) else _as_risk(problem)
        return newton(risk, start=start, **iterations)
    if not isinstance(problem, LeastSquares):
        raise ValueError(f"solver={name!r} solves least squares only: take 'newton' or 'auto' for this loss")
    if TOLERANCE[name] > 0:
        return SOLVERS[name](problem, start=None if start is None else start[0], **iterations)
    return SOLVERS[name](problem)


def _as_risk(problem: Problem) -> Risk:
    return Risk(problem.K, problem.Y, problem.penalty, Squared(), problem.weights, problem.intercept)
