"""EigenPro: preconditioned stochastic gradient descent in the space of the kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.matrix import KernelMatrix

from .descent import Descent, State
from .interpolation import Interpolation
from .problem import Array, LeastSquares, as_numpy
from .projection import checked_projection, project_with
from .rounding import drowns
from .solution import Callback, Keep, Record, Snapshot, Solution, Step

PATIENCE = 5  # epochs without a residual smaller by a thousandth after which rounding, or conflict, is what is left


def eigenpro(
    problem: LeastSquares,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 50,
    start: Tensor | None = None,
    callback: Callback | None = None,
    resume: Snapshot | None = None,
    keep: Keep | None = None,
    projection: str = "auto",
    projection_epochs: int = 2,
    sample_size: int | None = None,
    n_functions: int | None = None,
    batch_size: int | None = None,
    random_state: int = 0,
) -> Solution:
    """Solve by descent, f ← f - η P ∇L, one batch of rows a step, with P from the leading eigenfunctions of a sample.

    Where the centres are the points (`K.C is K.X`) this is EigenPro 2: with a penalty of zero f interpolates, and
    neither n × n numbers nor a factorisation are needed. Other centres, which may be more than the points, make it
    EigenPro 3: gradients are projected onto the span of the centres. Batches and steps follow from the spectrum, steps
    from the largest eigenvalue that P leaves a batch (EigenPro 3: the largest over three batches).

    Parameters
    ----------
    problem : LeastSquares
        Weights of rows are for other centres than the points.
    tolerance : float
        It ends when the residual is below: of ‖f(X) - Y‖ relative to ‖Y‖ for EigenPro 2, of the norm of the projected
        gradient relative to that of f = 0 for EigenPro 3.
    max_iterations : int
        Epochs: how often every row is visited.
    start : tensor of shape (m, t), optional
        Coefficients to begin from; if they are so large that float32 entries of K are not enough for them, float64
        ones are made.
    callback : callable (Step) -> bool, optional
        Called after each epoch; True ends the solve. Residuals and objective of a step are those of the rows when they
        were visited, so they lag behind its solution.
    resume : Snapshot, optional
        Of an earlier solve of the same problem, to go on from.
    keep : callable, optional
        Called between epochs with a function that takes a snapshot.
    projection : "auto", "exact" or "inexact"
        A Cholesky factor of k(C, C), or epochs of EigenPro 2 on the centres, which need no m × m matrix.
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
    >>> Y = torch.sin(X)
    >>> K = gf.KernelMatrix(gf.kernels.Laplacian(1.0), X)
    >>> solution = gf.solvers.eigenpro(gf.solvers.LeastSquares(K, Y, penalty=0.0))
    >>> bool((K @ solution.coefficients.float() - Y).abs().max() < 0.01)
    True
    """
    K = problem.K
    check_kernel(K)
    checked_projection(projection)
    counts = {
        "sample": checked_count(sample_size, "sample_size"),
        "functions": checked_count(n_functions, "n_functions"),
        "batch": checked_count(batch_size, "batch_size"),
    }
    checked_count(projection_epochs, "projection_epochs")
    if K.C is K.X and problem.weights is not None:
        raise ValueError("weights: eigenpro takes none where all points are centres: drop them, or choose falkon")
    if start is not None:
        problem.check_start(start)
    wide = start is not None and drowns(problem, start) if resume is None else resume[0]["float64"]
    if wide and K.dtype == torch.float32:
        problem = problem.widened() or problem
        K = problem.K
    with problem.timed("precondition"):
        run: _Run
        if K.C is K.X:
            run = _Points(problem, seed=random_state, **counts)
        else:
            project = project_with(K, projection, projection_epochs, random_state)
            run = _Centers(problem, Descent(problem, project, seed=random_state, **counts))
    with problem.timed("iterate"):
        return _iterate(problem, run, tolerance, max_iterations, start, callback, resume, keep)


class _Run(Protocol):
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

    def __init__(self, problem: LeastSquares, **options: Any):
        K = problem.K
        self.problem, self.targets = problem, problem.targets().to(K.device)
        self.descent = Interpolation(K, ridge=problem.penalty * K.shape[0], **options)

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
        self.state = self.descent.begin(start)
        values, slope = self.state.values, self.state.slope
        if start is not None:  # residuals are relative to those of f = 0 wherever it begins
            total = self.problem.K.shape[0]
            values, slope = torch.from_numpy(-total * self.problem.sides[0]).to(values), torch.zeros_like(slope)
        self.size = self._gradient_norm(values, slope, torch.zeros_like(self.state.beta))

    def restore(self, arrays: dict[str, Array]) -> None:
        self.state = State.of(arrays, self.problem.K.device)
        self.size = arrays["size"].copy()

    def arrays(self) -> dict[str, Array]:
        return self.state.arrays() | {"size": self.size}

    def epoch(self, number: int) -> tuple[Array, Array]:
        problem, state = self.problem, self.state
        self.descent.epoch(state, number)
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


def _iterate(
    problem: LeastSquares,
    run: _Run,
    tolerance: float,
    max_iterations: int,
    start: Tensor | None,
    callback: Callback | None,
    resume: Snapshot | None,
    keep: Keep | None,
) -> Solution:
    residuals: list[float] = []
    values: list[float] = []
    objective: Array = np.zeros(0)
    if resume is None:
        run.begin(start)
    else:
        run.restore(resume[1])
        residuals, values = list(resume[0]["residuals"]), list(resume[0]["values"])
        objective = np.array(resume[0]["objective"])
    message = f"stopped after {max_iterations} epochs"
    converged = False
    while len(residuals) < max_iterations:
        found, objective = run.epoch(len(residuals))
        residuals.append(float(found.max(initial=0.0)))
        values.append(float(objective.sum()))
        stopped = callback is not None and callback(Step(len(residuals), residuals[-1], values[-1], run.solution()))
        if residuals[-1] <= tolerance:
            message, converged = "the residual is below the tolerance", True
            break
        if stopped:
            message = f"stopped by the callback after {len(residuals)} epochs"
            break
        if len(residuals) > PATIENCE and min(residuals[-PATIENCE:]) > 0.999 * min(residuals[:-PATIENCE]):
            message = f"the residual no longer falls after {len(residuals)} epochs"
            break
        if keep is not None:
            facts = {"residuals": list(residuals), "values": list(values), "objective": objective.tolist()}
            facts |= {"float64": problem.K.dtype == torch.float64}
            keep(partial(lambda facts: (facts, run.arrays()), facts))
    record = Record(
        solver="eigenpro",
        iterations=len(residuals),
        residuals=residuals,
        converged=converged,
        message=message,
        jitter=run.jitter,
        objective=objective.tolist(),
        objective_history=values,
        seconds=problem.seconds,
        reason=run.name,
        passes=len(residuals),
    )
    return Solution(*run.solution()(), record)


def check_kernel(K: KernelMatrix) -> None:
    if not K.kernel.positive_definite:
        raise ValueError(f"kernel: {K.kernel!r} is not positive definite, which eigenpro needs: choose another")
    if min(K.shape) == 0:
        raise ValueError(f"K must have rows and centres, got shape {K.shape}")


def checked_count(value: Any, name: str) -> int | None:
    if value is not None and operator.index(value) < 1:
        raise ValueError(f"{name} must be a positive integer or None, got {value!r}")
    return None if value is None else operator.index(value)
