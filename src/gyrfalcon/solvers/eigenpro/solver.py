"""EigenPro: preconditioned stochastic gradient descent in the space of the kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix

from ..problem import LeastSquares
from ..rounding import needs_float64
from ..solution import Record, Solution, Step
from ..solver import Run, Solver, State, Traits, check_number
from ..stopping import check_count
from .descent import Descent, Position
from .interpolation import Interpolation
from .projection import checked_projection, project_with

STALLED_EPOCHS = 5  # without a residual smaller by a thousandth, after which rounding, or conflict, is what is left


class EigenProState(State):
    """The descent for the last penalty: eigenfunctions, batches, steps and projection do not depend on targets."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        check_kernel(K)
        if K.symmetric and weights is not None:
            raise ValueError("weights: eigenpro takes none where all points are centers: drop them, or choose falkon")
        self.made: tuple[float, torch.dtype, Interpolation | Descent] | None = None


@dataclass(frozen=True)
class EigenPro(Solver[EigenProState]):
    """Solve by descent, f ← f - η P ∇L, one batch of rows a step, with P from the leading eigenfunctions of a sample.

    Where the centers are the points (`K.symmetric`) this is EigenPro 2: with a penalty of zero f interpolates, and
    neither n × n numbers nor a factorization are needed. Other centers, which may be more than the points, make it
    EigenPro 3: gradients are projected onto the span of the centers. Batches and steps follow from the spectrum, steps
    from the largest eigenvalue that P leaves a batch (EigenPro 3: the largest over three batches).

    Weights of rows are for other centers than the points. If a start has coefficients so large that float32 entries of
    K are not enough for them, float64 ones are made. Residuals and objectives that a callback sees are those of the
    rows when they were visited, so they lag behind.

    Parameters
    ----------
    tolerance : float
        It ends when the residual is below: of ‖f(X) - Y‖ relative to ‖Y‖ for EigenPro 2, of the norm of the projected
        gradient relative to that of f = 0 for EigenPro 3.
    max_iterations : int
        Epochs: how often every row is visited.
    projection : "auto", "exact" or "inexact"
        A Cholesky factor of k(C, C), or epochs of EigenPro 2 on the centers, which need no m × m matrix.
    projection_epochs : int
        How many of these a step.
    sample_size : int, optional
        Rows that the eigenfunctions are made from.
    n_functions : int, optional
        How many eigenfunctions P knows; an eighth of the sample, or 256 if these are more, if not given.
    batch_size : int, optional
        Rows of a batch; half the size from which on larger ones allow no larger steps if not given.
    random_state : int

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Laplacian(1.0), X)
    >>> problem = gf.solvers.LeastSquares(K, torch.sin(X), penalty=0.0)
    >>> solution = gf.solvers.solve(problem, gf.solvers.EigenPro(max_iterations=50))
    >>> bool((K @ solution.coefficients.float() - torch.sin(X)).abs().max() < 0.01)
    True
    """

    tolerance: float = 1e-3
    max_iterations: int = 100
    projection: str = "auto"
    projection_epochs: int = 2
    sample_size: int | None = None
    n_functions: int | None = None
    batch_size: int | None = None
    random_state: int = 0

    name: ClassVar[str] = "eigenpro"
    traits: ClassVar[Traits] = Traits(iterates=True, starts=True, resumes=True)

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance)
        check_count("max_iterations", self.max_iterations)
        checked_projection(self.projection)
        checked_count(self.projection_epochs, "projection_epochs")
        for name in ("sample_size", "n_functions", "batch_size"):
            checked_count(getattr(self, name), name)

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> EigenProState:
        return EigenProState(K, weights, intercept)

    def _solve(self, state: EigenProState, problem: LeastSquares, run: Run) -> Solution:
        start = run.coefficients
        if start is not None:
            problem.check_start(start)
        wide = start is not None and needs_float64(problem, start) if run.resume is None else run.resume[0]["float64"]
        if wide and problem.K.dtype == torch.float32:
            problem = problem.widened() or problem
        with problem.timed("precondition"):
            descent = self._descent(state, problem)
        symmetric = isinstance(descent, Interpolation)
        epochs: _Epochs = _Points(problem, descent) if symmetric else _Centers(problem, descent)  # type: ignore[arg-type]
        with problem.timed("iterate"):
            return self._iterate(problem, epochs, run)

    def _descent(self, state: EigenProState, problem: LeastSquares) -> Interpolation | Descent:
        K = problem.K
        if state.made is None or state.made[:2] != (problem.penalty, K.dtype):
            counts = {"sample": self.sample_size, "functions": self.n_functions, "batch": self.batch_size}
            descent: Interpolation | Descent
            if K.symmetric:
                ridge = problem.penalty * K.shape[0]
                descent = Interpolation(K, ridge=ridge, seed=self.random_state, **counts)
            else:
                project = project_with(K, self.projection, self.projection_epochs, self.random_state)
                descent = Descent(problem, project, seed=self.random_state, **counts)
            state.made = problem.penalty, K.dtype, descent
        return state.made[2]

    def _iterate(self, problem: LeastSquares, epochs: _Epochs, run: Run) -> Solution:
        residuals: list[float] = []
        values: list[float] = []
        objective: Array = np.zeros(0)
        if run.resume is None:
            epochs.begin(run.coefficients)
        else:
            epochs.restore(run.resume[1])
            residuals, values = list(run.resume[0]["residuals"]), list(run.resume[0]["values"])
            objective = np.array(run.resume[0]["objective"])
        message = f"stopped after {self.max_iterations} epochs"
        converged = False
        while len(residuals) < self.max_iterations:
            found, objective = epochs.epoch(len(residuals))
            residuals.append(float(found.max(initial=0.0)))
            values.append(float(objective.sum()))
            stopped = run.callback is not None and run.callback(
                Step(len(residuals), residuals[-1], values[-1], epochs.solution())
            )
            if residuals[-1] <= self.tolerance:
                message, converged = "the residual is below the tolerance", True
                break
            if stopped:
                message = f"stopped by the callback after {len(residuals)} epochs"
                break
            if len(residuals) > STALLED_EPOCHS and min(residuals[-STALLED_EPOCHS:]) > 0.999 * min(
                residuals[:-STALLED_EPOCHS]
            ):
                message = f"the residual no longer falls after {len(residuals)} epochs"
                break
            if run.keep is not None:
                facts = {"residuals": list(residuals), "values": list(values), "objective": objective.tolist()}
                facts |= {"float64": problem.K.dtype == torch.float64}
                run.keep(partial(lambda facts: (facts, epochs.arrays()), facts))
        record = Record(
            solver=self.name,
            iterations=len(residuals),
            residuals=residuals,
            converged=converged,
            message=message,
            jitter=epochs.jitter,
            objective=objective.tolist(),
            objective_history=values,
            seconds=problem.seconds,
            reason=epochs.name,
            passes=len(residuals),
        )
        return Solution(*epochs.solution()(), record)


class _Epochs(Protocol):
    """A descent as `_iterate` sees it: a state, epochs that change it, and how far they came."""

    name: str
    jitter: float

    def begin(self, start: Tensor | None) -> None: ...

    def restore(self, arrays: dict[str, Array]) -> None: ...

    def arrays(self) -> dict[str, Array]: ...

    def epoch(self, number: int) -> tuple[Array, Array]:
        """Residuals and objectives by output."""
        ...

    def solution(self) -> Callable[[], tuple[Tensor, Tensor]]:
        """What gives the coefficients and the intercept of now, also later."""
        ...


class _Points:
    """EigenPro 2. An intercept is had from a second system, with ones on the right, as 1ᵀα = 0 demands."""

    name = "eigenpro 2"
    jitter = 0.0

    def __init__(self, problem: LeastSquares, descent: Interpolation):
        self.problem, self.targets, self.descent = problem, problem.targets().to(problem.K.device), descent

    def begin(self, start: Tensor | None) -> None:
        self.alpha = torch.zeros_like(self.targets)
        if start is not None:
            self.alpha[:, : start.shape[1]] = start.detach().to(self.alpha)

    def restore(self, arrays: dict[str, Array]) -> None:
        self.alpha = torch.from_numpy(arrays["alpha"].copy()).to(self.targets.device)

    def arrays(self) -> dict[str, Array]:
        return {"alpha": as_numpy(self.alpha).copy()}

    def epoch(self, number: int) -> tuple[Array, Array]:
        problem = self.problem
        found = self.descent.epoch(self.alpha, self.targets, number)
        gaps, errors, norms = (as_numpy(value) for value in found)
        sizes = as_numpy(self.targets.square().sum(0))
        residuals = np.sqrt(gaps / np.where(sizes > 0, sizes, 1.0))
        mix = self._mix(self.alpha)
        value = errors / problem.K.shape[0] + problem.penalty * norms
        return residuals, np.einsum("ij,ik,kj->j", mix, value, mix) + problem.floor

    def _mix(self, alpha: Tensor) -> Array:
        """The combination of the columns of α that the model is."""
        outputs = self.problem.Y.shape[1]
        if not self.problem.intercept:
            return np.eye(outputs)
        sums = as_numpy(alpha.sum(0))
        offset = sums[:-1] / sums[-1] if sums[-1] else np.zeros(outputs)
        return np.concatenate([np.eye(outputs), -offset[None]])

    def solution(self) -> Callable[[], tuple[Tensor, Tensor]]:
        alpha = self.alpha.cpu().clone()

        def finish() -> tuple[Tensor, Tensor]:
            mix = torch.from_numpy(self._mix(alpha))
            offset = self.problem.mean.cpu() - mix[alpha.shape[1] - 1] * int(self.problem.intercept)
            return alpha @ mix, offset

        return finish


class _Centers:
    """EigenPro 3."""

    def __init__(self, problem: LeastSquares, descent: Descent):
        self.problem, self.descent, self.project = problem, descent, descent.network.project
        self.name, self.jitter = f"eigenpro 3, {self.project.name} projection", self.project.jitter

    def begin(self, start: Tensor | None) -> None:
        self.state = self.descent.begin(self.problem, start)
        values, slope = self.state.values, self.state.slope
        if start is not None:  # residuals are relative to those of f = 0 wherever it begins
            total = self.problem.K.shape[0]
            values, slope = torch.from_numpy(-total * self.problem.sides[0]).to(values), torch.zeros_like(slope)
        self.size = self._gradient_norm(values, slope, torch.zeros_like(self.state.beta))

    def restore(self, arrays: dict[str, Array]) -> None:
        self.state = Position.of(arrays, self.problem.K.device)
        self.size = arrays["size"].copy()

    def arrays(self) -> dict[str, Array]:
        return self.state.arrays() | {"size": self.size}

    def epoch(self, number: int) -> tuple[Array, Array]:
        problem, state = self.problem, self.state
        self.descent.epoch(problem.Y, state, number)
        norm = self._gradient_norm(state.values, state.slope, state.beta)
        value = as_numpy(state.gaps.square().sum(0)) / problem.K.shape[0] + problem.floor
        if problem.penalty:
            value = value + problem.penalty * as_numpy(self.project.squared_norms(state.beta))
        return norm / np.where(self.size > 0, self.size, 1.0), value

    def _gradient_norm(self, values: Tensor, slope: Tensor, beta: Tensor) -> Array:
        """Of the projected gradient, by output, in the space of the kernel."""
        ridge = self.problem.penalty * self.problem.K.shape[0]
        square = self.project.squared_norms(self.project(values, beta, ridge))
        square = square + self.descent.network.constant * slope[0].square()
        return np.asarray(as_numpy(square.clamp(min=0).sqrt()))

    def solution(self) -> Callable[[], tuple[Tensor, Tensor]]:
        beta, intercept = self.state.beta.cpu().clone(), self.state.intercept[0].cpu().clone()
        return lambda: (beta, intercept)


def check_kernel(K: KernelMatrix) -> None:
    if not K.kernel.positive_definite:
        raise ValueError(f"kernel: {K.kernel!r} is not positive definite, which eigenpro needs: choose another")
    if min(K.shape) == 0:
        raise ValueError(f"K must have rows and centers, got shape {K.shape}")


def checked_count(value: Any, name: str) -> int | None:
    if value is not None and operator.index(value) < 1:
        raise ValueError(f"{name} must be a positive integer or None, got {value!r}")
    return None if value is None else operator.index(value)
