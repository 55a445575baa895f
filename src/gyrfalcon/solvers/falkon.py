"""Falkon: preconditioned conjugate gradients on the Nyström normal equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.linalg.triangles import TrianglePair

from .problem import LeastSquares, as_numpy
from .solution import Record, Solution

Array = np.ndarray[Any, Any]
Progress = Callable[[int, Callable[[], tuple[Tensor, Tensor]], float], bool]


KEPT_JITTER = 0.01  # the part of the jitter that stays, so that null directions of Kmm keep a positive curvature


def noise_floor(m: int, dtype: torch.dtype, scale: float) -> float:
    """The jitter that hides rounding in the entries of K from the preconditioner.

    Entries carry errors of about ε·scale, so KᵀK/n carries ε²·scale²·I, which in directions where Kmm is below
    √m·ε·scale outweighs what the preconditioner expects there, Kmm²/m. Lifting Kmm to that level keeps the
    preconditioned system well conditioned; the problem itself does not change. In float64 the floor is set by the
    triangular solves instead, which lose half the digits in null directions.
    """
    return (1e-10 if dtype == torch.float64 else 3 * np.sqrt(m) * torch.finfo(dtype).eps) * scale


def falkon(
    problem: LeastSquares,
    *,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    start: Tensor | None = None,
    callback: Progress | None = None,
) -> Solution:
    """Solve by conjugate gradients in γ, β = T⁻¹A⁻¹γ, one pass over X an iteration.

    T, A and the iterates are float64 and so are the sums over n, while K is evaluated in the type of X: float32 runs
    at float32 speed without losing what small penalties need. The jitter δ in TᵀT = Kmm + δI is subtracted again
    inside the operator, all but a hundredth of it, so it does not act as a penalty.

    Parameters
    ----------
    problem : LeastSquares
    tolerance : float
        Relative residual, preconditioned, at which an output is done.
    max_iterations : int
    start : tensor of shape (m, t), optional
        Coefficients to begin from.
    callback : callable (iteration, solution, residual) -> bool, optional
        After each iteration; `solution()` gives the current coefficients and intercept. True ends the solve.
    """
    K, penalty, total = problem.K, problem.penalty, problem.total_weight
    m = K.shape[1]
    with problem.timed("factor"):
        kernel = K.between_centers()
        scale = float(kernel.diagonal().max()) if m else 1.0
        pair = TrianglePair(kernel, max(penalty, np.finfo(float).eps * scale), noise_floor(m, K.dtype, scale))
    leak = penalty * pair.jitter * (1 - KEPT_JITTER)
    sides = problem.right_sides()

    def operator(gamma: Array) -> Array:
        with problem.timed("precondition"):
            inner = pair.solve_a(gamma)
            beta = pair.solve_t(inner)
        with problem.timed("iterate"):
            V = torch.from_numpy(np.ascontiguousarray(beta)).to(K.dtype).to(K.device)
            product = K.gram_mv(V, problem.weights, dtype=torch.float64)
        with problem.timed("precondition"):
            image = as_numpy(product) / total - leak * beta
            image = pair.solve_t_transposed(image) + penalty * inner
            return pair.solve_a_transposed(image)

    def coefficients(gamma: Array) -> tuple[Tensor, Tensor]:
        return problem.split(pair.solve_t(pair.solve_a(gamma)), sides)

    def report(iteration: int, gamma: Array, residual: Array) -> bool:
        return callback is not None and callback(iteration, lambda: coefficients(gamma), float(residual.max(initial=0)))

    result = conjugate_gradients(
        operator,
        pair.solve_a_transposed(pair.solve_t_transposed(sides)),
        start=None if start is None else _gamma(pair, start, problem.intercept),
        tolerance=tolerance,
        max_iterations=max_iterations,
        callback=report,
    )
    beta, intercept = coefficients(result.solution)
    converged = bool(result.converged.all())
    record = Record(
        solver="falkon",
        iterations=result.iterations,
        residuals=result.residuals.max(axis=1, initial=0.0).tolist(),
        converged=converged,
        message="the residual reached the tolerance" if converged else f"stopped after {result.iterations} iterations",
        jitter=pair.jitter,
        seconds=problem.seconds,
    )
    return Solution(beta, intercept, record)


def _gamma(pair: TrianglePair, start: Tensor, intercept: bool) -> Array:
    """γ = A T β, by the triangles themselves; the extra right side of an intercept starts at zero."""
    beta = start.detach().cpu().double().numpy()
    gamma = pair.multiply_a(pair.multiply_t(beta))
    return np.concatenate([gamma, np.zeros_like(gamma[:, :1])], 1) if intercept else gamma
