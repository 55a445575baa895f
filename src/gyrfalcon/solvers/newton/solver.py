"""Newton's method with Falkon inside: any smooth convex loss, n × t numbers at a time and never n × m."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.threads import one_thread_each

from ..risk import Risk
from ..solution import Record, Snapshot, Solution, Step
from ..solver import Run, Traits
from .coordinates import Coordinates
from .points import LEAST_PENALTY, PointSpace
from .space import Space
from .state import NewtonSolver, NewtonState

LAST_PENALTY = 1e-9  # where a path of penalties jumps to the last one, as a part of max k(c, c)
PENALTY_FACTOR = 0.03
PATH_CG_STEPS = 5  # conjugate gradient steps for each penalty on the path
CG_STEPS = 100  # and for each Newton step after it, at most
LOOSEST_CG_TOLERANCE = 0.3  # relative residual at which conjugate gradients stop, far from the solution
STALLED_STEPS = 3  # Newton steps without progress before rounding is blamed
ONE_THREAD_ENTRIES = 300_000_000  # of K times outputs, up to which threads cost more than they gain


@dataclass(frozen=True)
class Newton(NewtonSolver):
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

    def _solve(self, state: NewtonState, problem: Risk, run: Run) -> Solution:
        small = problem.K.shape[0] * problem.K.shape[1] * problem.Y.shape[1] <= ONE_THREAD_ENTRIES
        return one_thread_each(self._minimize)(state, problem, run) if small else self._minimize(state, problem, run)

    def _minimize(self, state: NewtonState, problem: Risk, run: Run) -> Solution:
        tolerance, max_iterations, penalty = self.tolerance, self.max_iterations, problem.penalty
        space = _space(state, problem)
        if run.resume is None:
            at = _Position(*space.begin(run.start), space.first_penalty(penalty) if run.start is None else penalty)
        else:
            at = _Position.of(run.resume, space, problem.Y.device)
        message = f"stopped after {max_iterations} iterations"
        while True:
            space.expand(at.x, at.F, at.mu)
            residual = space.residual(penalty)
            at.residuals.append(residual)
            norms = space.squared_norms(at.x, at.F)
            at.objectives.append(problem.empirical(at.F) + penalty * float(norms.sum()))
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
                if at.stalled(residual):
                    if not space.sharpen():
                        message = _as_far_as_rounding_allows(residual, tolerance)
                        break
                    at.stalls = 0
            if at.iteration == max_iterations:
                break
            on_path = at.mu > penalty
            step = space.direction(*self._inner(residual, on_path=on_path))
            at.inner += step.iterations
            length = _step_length(problem, at.F, step.change, at.mu, step.cross, step.square)
            if length == 0 and not on_path and not space.sharpen():
                message = _as_far_as_rounding_allows(residual, tolerance)
                break
            at.x, at.F = at.x + length * step.x, at.F + length * step.change
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
            jitter=space.jitter,
            seconds=problem.seconds,
            objective=_by_output(problem, at.F, norms),
            objective_history=at.objectives,
            inner_iterations=at.inner,
            passes=space.passes,
        )
        return Solution(*space.split(at.x), record)

    def _inner(self, residual: float, *, on_path: bool) -> tuple[float, int]:
        """How far conjugate gradients go for a step, and how many iterations they may take."""
        if on_path:
            return LOOSEST_CG_TOLERANCE, PATH_CG_STEPS
        return max(min(LOOSEST_CG_TOLERANCE, residual**0.5), self.tolerance / residual / 2), CG_STEPS


def _as_far_as_rounding_allows(residual: float, tolerance: float) -> str:
    return (
        f"the gradient fell to {residual:.1e} of its start ({tolerance:.1e} was asked for), as far as rounding allows: "
        "a larger penalty would allow more"
    )


def _space(state: NewtonState, problem: Risk) -> Space:
    """The coordinates of all points where they are all centers, and else those of the centers."""
    if state.keeps_all and problem.penalty > 0:
        space = PointSpace(problem, state.dense())
        if problem.penalty >= LEAST_PENALTY * space.scale > 0:
            return space
    return Coordinates(problem, state.factored())


@dataclass
class _Position:
    """Where Newton's method stands before a step: x, its predictions F, the penalty μ of the path, and what happened.

    F has grown by one step at a time, so Kβ + b made again would have other last digits.
    """

    x: Array
    F: Tensor
    mu: float
    residuals: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    best: float = np.inf
    stalls: int = 0
    inner: int = 0
    iteration: int = 0

    def stalled(self, residual: float) -> bool:
        """Whether this is one of several steps without progress."""
        idle = residual > 0.9 * self.best and self.objectives[-2] - self.objectives[-1] <= 1e-9 * self.objectives[-1]
        self.best, self.stalls = min(self.best, residual), self.stalls + 1 if idle else 0
        return self.stalls >= STALLED_STEPS

    def snapshot(self, space: Space) -> Snapshot:
        """With what the space has to know again."""
        facts, arrays = space.snapshot()
        own = {name: getattr(self, name) for name in ("mu", "best", "stalls", "inner", "iteration")}
        history = {"residuals": np.array(self.residuals), "objectives": np.array(self.objectives)}
        return own | {"space": facts}, {"x": self.x, "F": as_numpy(self.F)} | arrays | history

    @classmethod
    def of(cls, snapshot: Snapshot, space: Space, device: torch.device) -> _Position:
        """The position that `snapshot` gave, and the space as it was there."""
        facts, arrays = dict(snapshot[0]), snapshot[1]
        space.restore((facts.pop("space"), arrays))
        return cls(
            x=arrays["x"],
            F=torch.from_numpy(arrays["F"]).to(device),
            residuals=arrays["residuals"].tolist(),
            objectives=arrays["objectives"].tolist(),
            **facts,
        )


def _by_output(problem: Risk, F: Tensor, norms: Array) -> list[float]:
    """The last objective in the outputs that the loss is a sum over."""
    losses = as_numpy(problem.mean(problem.loss.by_output(F, problem.Y)))
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
