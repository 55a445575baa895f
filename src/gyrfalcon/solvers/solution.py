"""What a solver returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from gyrfalcon.moments import Moments


@dataclass(frozen=True)
class FilterPath:
    """What a regularization path went through, from f = 0 on.

    Attributes
    ----------
    steps : list of ints
        0, 1, 2, ...: iterations, epochs, or components of the spectrum.
    objectives : list of floats
        The training objective, summed over the outputs.
    errors : list of floats
        The mean squared error, or mean loss, on rows that were held out; empty if none were.
    chosen : int
        The step that was taken: that of the lowest error, or the last.
    unit : str
        What a step is: "iteration", "component" or "epoch".

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 0.0)
    >>> path = gf.solvers.solve(problem, "nytro").record.path
    >>> path.unit, path.errors[path.chosen] == min(path.errors)
    ('iteration', True)
    """

    steps: list[int]
    objectives: list[float]
    errors: list[float]
    chosen: int
    unit: str = "iteration"


@dataclass(frozen=True)
class Record:
    """What happened during a solve.

    Attributes
    ----------
    solver : str
    iterations : int
    residuals : list of floats
        The largest relative residual over the outputs, at the start and after each iteration. For a loss that is not
        squared, the norm of the preconditioned gradient relative to that of f = 0.
    converged : bool
    message : str
        Why it ended, in words.
    jitter : float
        What was added to the diagonal of k(C, C) to factor it. It conditions the solver and is taken out of the
        problem again, so it does not act as a penalty.
    objective : list of floats
        What is minimized, at the solution or, with stochastic gradients, as rows were met: one number for each output
        if the loss is a sum over them, as the squared loss is, and otherwise one in all.
    seconds : dict
        Time by part: "factor", "right_side", "iterate", ...
    objective_history : list of floats
        What is minimized, summed over the outputs, at the start and after each iteration, where the solver knows it.
    inner_iterations : int
        Conjugate gradient iterations in all, where they are not the iterations themselves.
    passes : int
        How often all of K was gone through, where the solver counts it.
    path : FilterPath, optional
        Of a solver that regularizes by stopping early: objective and validation error along the way.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> record = gf.solvers.solve(problem, "falkon").record
    >>> record.solver, record.converged, len(record.residuals) == record.iterations + 1
    ('falkon', True, True)
    """

    solver: str
    iterations: int = 0
    residuals: list[float] = field(default_factory=list)
    converged: bool = True
    message: str = ""
    jitter: float = 0.0
    objective: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    plan: str = ""
    validation_errors: list[float] = field(default_factory=list)
    objective_history: list[float] = field(default_factory=list)
    inner_iterations: int = 0
    passes: int = 0
    path: FilterPath | None = None

    def __post_init__(self) -> None:
        if isinstance(self.path, dict):  # from a model file
            object.__setattr__(self, "path", FilterPath(**self.path))

    def __str__(self) -> str:
        """A short table: how it was solved, how it ended, and how long the parts took."""
        rows = {
            "solver": f"{self.solver} ({self.reason})" if self.reason else self.solver,
            "ended": self.message if self.converged else f"{self.message}; it has not converged",
        }
        if self.iterations:
            inner = f", {self.inner_iterations:,} inside them" if self.inner_iterations else ""
            rows["iterations"] = f"{self.iterations:,}{inner}"
        if self.objective:
            rows["objective"] = f"{sum(self.objective):.6g}"
        if self.validation_errors:
            rows["validation"] = f"{min(self.validation_errors):.6g} at best"
        if self.seconds:
            rows["seconds"] = ", ".join(f"{part.replace('_', ' ')} {time:.2g}" for part, time in self.seconds.items())
        if self.plan:
            rows["products"] = self.plan.splitlines()[0]
        return "\n".join(f"{name:<12}{value}" for name, value in rows.items())

    def after(self, residuals: Any, values: Any) -> Record:
        """The record of a solve in float64 that continues one in float32, of which these are the histories."""
        return dataclasses.replace(
            self,
            iterations=self.iterations + len(residuals) - 1,
            residuals=[*residuals.max(axis=1, initial=0.0).tolist(), *self.residuals[1:]],
            objective_history=[*values.sum(axis=1).tolist(), *self.objective_history[1:]],
            message=f"{self.message}; the last {self.iterations} iterations in float64",
        )


@dataclass(frozen=True)
class Solution:
    """Coefficients of f(x) = Σⱼ coefficientsⱼ k(x, cⱼ) + intercept, one column per output, in float64.

    `moments` are those of a solver that made them.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> solution = gf.solvers.solve(problem, "direct")
    >>> solution.coefficients.shape, solution.intercept.shape, solution.record.message
    (torch.Size([30, 1]), torch.Size([1]), 'solved by factorization')
    """

    coefficients: Tensor
    intercept: Tensor
    record: Record
    moments: Moments | None = None


@dataclass(frozen=True)
class Step:
    """Where an iterative solver stands; `solution()` gives the coefficients and the intercept it has now.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> seen = []
    >>> def watch(step):
    ...     seen.append(step.iteration)
    ...     return step.iteration == 2  # enough
    >>> gf.solvers.solve(problem, gf.solvers.Falkon(tolerance=0.0), callback=watch).record.iterations, seen
    (2, [1, 2])
    """

    iteration: int
    residual: float
    objective: float
    solution: Callable[[], tuple[Tensor, Tensor]]

    def after(self, iterations: int) -> Step:
        """The same step of a solve that had made that many iterations before."""
        return dataclasses.replace(self, iteration=self.iteration + iterations)


Callback = Callable[[Step], bool]
"""What a solver calls after each iteration; True ends the solve."""

Snapshot = tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]
"""Where an iterative solver stands, as facts that JSON can hold and arrays; pass it as `resume` to go on from there."""

Keep = Callable[[Callable[[], Snapshot]], None]
"""What a solver calls between two iterations, with a function that takes the snapshot and costs nothing until then."""
