"""Newton's method with Falkon inside: any smooth convex loss, n × t numbers at a time and never n × m."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.matrix import KernelMatrix

from ..risk import Risk
from ..solution import Record, Snapshot, Solution, Step
from ..solver import Run, Solver, Traits, check_number
from ..stopping import check_count
from .coordinates import Coordinates, NewtonState

FIRST_PENALTY = 1e-3  # where the path of penalties begins, and where it jumps to the last one, as parts of max k(c, c)
LAST_PENALTY = 1e-9
PENALTY_FACTOR = 0.03
PATH_CG_STEPS = 5  # conjugate gradient steps for each penalty on the path
CG_STEPS = 100  # and for each Newton step after it, at most
LOOSEST_CG_TOLERANCE = 0.3  # relative residual at which conjugate gradients stop, far from the solution
STALLED_STEPS = 3  # Newton steps without progress before rounding is blamed


@dataclass(frozen=True)
class Newton(Solver[NewtonState]):
    """Minimize the risk by Newton steps, each solved roughly by conjugate gradients with Falkon's preconditioner.

    The first steps are for penalties that fall geometrically to the one asked for, the others for that one, solved to
    the square root of the relative gradient. In x = (Tβ; b), where TᵀT = Kmm, the risk has the gradient
    (T⁻ᵀKᵀWg/Σw + 2·penalty·Tβ; Σwg/Σw), g = ∂ℓ/∂f, and each product with its Hessian is one pass over X for one
    output and two for more. Steps are halved until the objective falls, which needs no pass. Types as in `Falkon`.
    A start begins at the last penalty at once.

    Parameters
    ----------
    tolerance : float
        Norm of the gradient, preconditioned as the last step was, relative to that of f = 0 in the same norm.
    max_iterations : int
        Newton steps, those on the path of penalties included.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X)
    >>> Y[::25] += 100  # outliers
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> risk = gf.solvers.Risk(K, Y, penalty=1e-4, loss=gf.losses.Robust())
    >>> solution = gf.solvers.solve(risk, gf.solvers.Newton(tolerance=1e-8))
    >>> bool((K @ solution.coefficients - torch.sin(X)).abs().max() < 0.1)
    True
    """

    tolerance: float = 1e-6
    max_iterations: int = 100

    name: ClassVar[str] = "newton"
    traits: ClassVar[Traits] = Traits("smooth", iterates=True, starts=True, resumes=True)

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance)
        check_count("max_iterations", self.max_iterations)

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> NewtonState:
        return NewtonState(K, weights, intercept)

    def _solve(self, state: NewtonState, problem: Risk, run: Run) -> Solution:
        tolerance, max_iterations = self.tolerance, self.max_iterations
        loss, Y, penalty = problem.loss, problem.Y, problem.penalty
        space = Coordinates(problem, state)
        if run.resume is None:
            x = space.point(run.start)
            F = space.predict(x) if x.any() else torch.zeros(Y.shape, dtype=torch.float64, device=Y.device)
            at = _Position(x, F, max(penalty, FIRST_PENALTY * space.scale) if run.start is None else penalty)
        else:
            at = _Position.of(run.resume, space, Y.device)
            problem.pass_first_product()
        message = f"stopped after {max_iterations} iterations"
        while True:
            curvature = loss.curvature(at.F, Y)
            columns = [loss.gradient(at.F, Y), curvature[:, : int(space.bordered)]]
            if at.slopes_at_zero is None:
                columns.append(loss.gradient(torch.zeros_like(at.F), Y))
            slopes, border, *first = space.transpose(*columns)
            if at.slopes_at_zero is None:
                at.slopes_at_zero = first[0]
            space.precondition(float(problem.mean(curvature)), at.mu)
            ridge = space.ridge(at.x)
            residual = space.norm(slopes + 2 * penalty * ridge) / (space.norm(at.slopes_at_zero) or 1.0)
            at.residuals.append(residual)
            at.objectives.append(problem.empirical(at.F) + penalty * float(np.vdot(at.x, ridge)))
            if (
                at.iteration
                and run.callback is not None
                and run.callback(Step(at.iteration, residual, at.objectives[-1], partial(space.split, at.x)))
            ):
                message = "stopped by the callback"
                break
            if at.mu == penalty:
                if residual <= tolerance:
                    message = "the gradient reached the tolerance"
                    break
                idle = residual > 0.9 * at.best and at.objectives[-2] - at.objectives[-1] <= 1e-9 * at.objectives[-1]
                at.best, at.stalls = min(at.best, residual), at.stalls + 1 if idle else 0
                if at.stalls == STALLED_STEPS:
                    message = f"rounding stopped progress at a relative gradient of {residual:.1e}"
                    break
            if at.iteration == max_iterations:
                break
            on_path = at.mu > penalty
            solved = conjugate_gradients(
                space.preconditioned(space.hessian(at.F, curvature, border, at.mu)),
                space.solve_transposed(-slopes - 2 * at.mu * ridge).reshape(-1, 1),
                tolerance=LOOSEST_CG_TOLERANCE
                if on_path
                else max(min(LOOSEST_CG_TOLERANCE, residual**0.5), tolerance / residual / 2),
                max_iterations=PATH_CG_STEPS if on_path else CG_STEPS,
            )
            at.inner += solved.iterations
            direction = space.solve(solved.solution.reshape(at.x.shape))
            change, bend = space.predict(direction), space.ridge(direction)
            length = _step_length(
                problem, at.F, change, at.mu, float(np.vdot(at.x, bend)), float(np.vdot(direction, bend))
            )
            if length == 0 and not on_path:
                message = f"rounding leaves no step that lowers the objective, at a relative gradient of {residual:.1e}"
                break
            at.x, at.F = at.x + length * direction, at.F + length * change
            at.mu *= PENALTY_FACTOR
            if at.mu <= max(penalty, LAST_PENALTY * space.scale):
                at.mu = penalty
            at.iteration += 1
            if run.keep is not None:
                run.keep(partial(at.snapshot, space))
        record = Record(
            solver=self.name,
            iterations=at.iteration,
            residuals=at.residuals,
            converged=at.mu == penalty and at.residuals[-1] <= tolerance,
            message=message,
            jitter=space.pair.jitter,
            seconds=problem.seconds,
            objective=_by_output(problem, at, ridge),
            objective_history=at.objectives,
            inner_iterations=at.inner,
            passes=space.passes,
        )
        return Solution(*space.split(at.x), record)


@dataclass
class _Position:
    """Where Newton's method stands before a step: x, its predictions F, the penalty μ of the path, and what happened.

    F has grown by one step at a time, so Kβ + b made again would have other last digits.
    """

    x: Array
    F: Tensor
    mu: float
    slopes_at_zero: Array | None = None
    residuals: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    best: float = np.inf
    stalls: int = 0
    inner: int = 0
    iteration: int = 0

    def snapshot(self, space: Coordinates) -> Snapshot:
        """With the preconditioner's shift, since one that is still good is not made again."""
        assert self.slopes_at_zero is not None
        names = ("mu", "best", "stalls", "inner", "iteration")
        facts = {name: getattr(self, name) for name in names} | {"shift": space.shift, "passes": space.passes}
        history = {"residuals": np.array(self.residuals), "objectives": np.array(self.objectives)}
        arrays = {"x": self.x, "F": as_numpy(self.F), "slopes_at_zero": self.slopes_at_zero}
        return facts, arrays | history

    @classmethod
    def of(cls, snapshot: Snapshot, space: Coordinates, device: torch.device) -> _Position:
        """The position that `snapshot` gave, and the coordinates as they were there."""
        facts, arrays = dict(snapshot[0]), snapshot[1]
        space.shift_by(facts.pop("shift"))
        space.passes = facts.pop("passes")
        return cls(
            x=arrays["x"],
            F=torch.from_numpy(arrays["F"]).to(device),
            slopes_at_zero=arrays["slopes_at_zero"],
            residuals=arrays["residuals"].tolist(),
            objectives=arrays["objectives"].tolist(),
            **facts,
        )


def _by_output(problem: Risk, at: _Position, ridge: Array) -> list[float]:
    """The last objective in the outputs that the loss is a sum over."""
    losses = as_numpy(problem.mean(problem.loss.by_output(at.F, problem.Y)))
    norms = (at.x * ridge).sum(0)
    found: list[float] = (losses + problem.penalty * (norms if len(losses) == len(norms) else norms.sum())).tolist()
    return found


def _step_length(problem: Risk, F: Tensor, change: Tensor, mu: float, cross: float, square: float) -> float:
    """The first of 1, ½, ¼, ... at which the objective has fallen and does not rise too steeply; zero if there is none.

    Along s the predictions are F + s·change and ‖f‖² grows by 2s·cross + s²·square. Near the minimum the objective is
    off by rounding and only the slope tells.
    """

    def along(s: float) -> tuple[float, float]:
        G = F + s * change
        slope = float(problem.mean((problem.loss.gradient(G, problem.Y) * change).sum(1)))
        return problem.empirical(G) + mu * s * (2 * cross + s * square), slope + 2 * mu * (cross + s * square)

    value, slope = along(0.0)
    for s in 0.5 ** np.arange(40):
        new_value, new_slope = along(s)
        if new_value <= value + 1e-12 * abs(value) and new_slope <= -0.5 * slope:
            return float(s)
    return 0.0
