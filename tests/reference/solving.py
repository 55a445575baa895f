"""One call for each solver: settings of the solver and options of the solve side by side, as tests vary both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gyrfalcon import solvers
from gyrfalcon.losses import Squared
from gyrfalcon.solvers import LeastSquares, Risk, Solution, solve

OPTIONS = ("start", "callback", "resume", "keep")


@dataclass(frozen=True)
class Rule:
    """When an early-stopped solver ends: `EarlyStopping`, and what else decides it."""

    validation: Any = 0.2
    patience: int = 10
    tolerance: float = 1e-3
    max_iterations: int = 500
    random_state: int = 0

    def __post_init__(self) -> None:
        solvers.Nytro(**self.settings())  # complains

    def settings(self) -> dict[str, Any]:
        stopping = solvers.EarlyStopping(self.validation, self.patience, self.tolerance)
        return {"stopping": stopping, "max_iterations": self.max_iterations, "random_state": self.random_state}


def _solve(kind: type, problem: Any, settings: dict[str, Any]) -> Solution:
    options = {name: settings.pop(name) for name in OPTIONS if name in settings}
    return solve(problem, kind(**settings), **options)


def direct(problem: LeastSquares) -> Solution:
    return _solve(solvers.Direct, problem, {})


def exact(problem: LeastSquares) -> Solution:
    return _solve(solvers.Exact, problem, {})


def falkon(problem: LeastSquares, **settings: Any) -> Solution:
    return _solve(solvers.Falkon, problem, settings)


def newton(problem: Any, **settings: Any) -> Solution:
    return _solve(solvers.Newton, problem, settings)


def eigenpro(problem: LeastSquares, **settings: Any) -> Solution:
    return _solve(solvers.EigenPro, problem, {"max_iterations": 50} | settings)


def nytro(problem: LeastSquares, rule: Rule = Rule(), **settings: Any) -> Solution:  # noqa: B008
    return _solve(solvers.Nytro, problem, rule.settings() | settings)


def nu_method(problem: LeastSquares, rule: Rule = Rule(), **settings: Any) -> Solution:  # noqa: B008
    return _solve(solvers.NuMethod, problem, rule.settings() | settings)


def kernel_cg(problem: LeastSquares, rule: Rule = Rule(), **settings: Any) -> Solution:  # noqa: B008
    return _solve(solvers.KernelCG, problem, rule.settings() | settings)


def spectral_cutoff(problem: LeastSquares, **settings: Any) -> Solution:
    return _solve(solvers.SpectralCutoff, problem, settings)


def sgd(problem: Risk, rule: Rule = Rule(), **settings: Any) -> Solution:  # noqa: B008
    plain = {"step": None, "decay": 0.0, "averaging": None}
    return _solve(solvers.SGD, problem, plain | rule.settings() | settings)


def as_risk(problem: LeastSquares) -> Risk:
    """Least squares as a risk."""
    return Risk(problem.K, problem.Y, problem.penalty, Squared(), problem.weights, problem.intercept)
