"""Falkon: preconditioned conjugate gradients on the Nyström normal equations."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.linalg.cg import WINDOW, CGResult, conjugate_gradients
from gyrfalcon.linalg.triangles import TrianglePair

from .features import KEPT_JITTER, excess
from .problem import LeastSquares, Problem, as_numpy, noise_floor
from .solution import Callback, Record, Solution, Step

Array = np.ndarray[Any, Any]


ROUNDING_SHARE = 0.1  # of a model's error that float32 entries of K may cause: half a percent once squares are added

# With an intercept, constants that are nearly of the form Kβ cost nearly nothing. The preconditioner leaves them this
# part of their weight: less would amplify the rounding of products with K, which is not free of a constant.
CONSTANTS = {torch.float32: 1e-3, torch.float64: 1e-8}


class Factors(NamedTuple):
    """The triangles of Falkon's preconditioner, the part of their jitter that the penalty is to be freed of again, and
    the largest k(c, c)."""

    pair: TrianglePair
    removable: float
    scale: float


def factor(problem: Problem, penalty: float, *, centered: bool = False) -> Factors:
    """Factor k(C, C), lifted above rounding, for problems on K with that penalty, with an intercept if centred."""
    m = problem.K.shape[1]
    with problem.timed("factor"):
        kernel = problem.K.between_centers()
        scale = float(kernel.diagonal().max()) if m else 1.0
        floor = noise_floor(m, problem.K.dtype) * scale
        share = (1 - CONSTANTS[problem.K.dtype]) if centered else 0.0
        pair = TrianglePair(kernel, max(penalty, np.finfo(float).eps * scale), floor, centered=share)
    return Factors(pair, pair.jitter * (1 - KEPT_JITTER), scale)


class NormalEquations:
    """(KᵀWK/Σw - uuᵀ + penalty·k(C, C)) β = b in the coordinates γ = A T β, in which it is well conditioned.

    T, A and the vectors are float64 and so are the sums over n, while K is evaluated in the type of X. The jitter δ in
    TᵀT = k(C, C) + δI is subtracted again, all but a hundredth of it, so it does not act as a penalty.
    """

    def __init__(self, problem: LeastSquares):
        self.problem = problem
        self.pair, _, self.scale = factor(problem, problem.penalty, centered=problem.intercept)
        rounding = torch.finfo(problem.K.dtype).eps * self.scale
        self._leak = excess(problem.penalty, self.pair.jitter, rounding)

    def operator(self, gamma: Array) -> Array:
        """One pass over X."""
        problem, pair, K = self.problem, self.pair, self.problem.K
        with problem.timed("precondition"):
            inner = pair.solve_a(gamma)
            beta = pair.solve_t(inner)
        with problem.timed("iterate"):
            V = torch.from_numpy(np.ascontiguousarray(beta)).to(K.dtype).to(K.device)
            product = K.gram_mv(V, problem.weights, dtype=torch.float64)
        with problem.timed("precondition"):
            image = as_numpy(product) / problem.total_weight - self._leak * beta
            if problem.intercept:
                u = problem.sides[1]
                image -= u @ (u.T @ beta)
            image = pair.solve_t_transposed(image) + problem.penalty * inner
            return pair.solve_a_transposed(image)

    def right_side(self, b: Array) -> Array:
        """What the right side becomes in these coordinates."""
        return self.pair.solve_a_transposed(self.pair.solve_t_transposed(b))

    def coefficients(self, gamma: Array) -> Array:
        """β from γ."""
        return self.pair.solve_t(self.pair.solve_a(gamma))

    def start(self, beta: Array) -> Array:
        """γ from β."""
        return self.pair.multiply_a(self.pair.multiply_t(beta))


def falkon(
    problem: LeastSquares,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    start: Tensor | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve by conjugate gradients in γ, β = T⁻¹A⁻¹γ, one pass over X an iteration.

    float32 runs at float32 speed without losing what small penalties need; see `NormalEquations`. If the coefficients
    end so large that float32 entries of K are not enough for them, the solve goes on with float64 entries.

    Parameters
    ----------
    problem : LeastSquares
    tolerance : float
        An output is done when its objective is expected to fall by less than this part of itself in all iterations to
        come, from how it fell in the last six.
    max_iterations : int
    start : tensor of shape (m, t), optional
        Coefficients to begin from.
    callback : callable (Step) -> bool, optional
        Called after each iteration; True ends the solve.
    """
    equations = NormalEquations(problem)
    right, u = problem.sides
    coefficients = equations.coefficients

    def report(iteration: int, gamma: Array, residuals: Array, values: Array) -> bool:
        if callback is None:
            return False
        solution = partial(lambda gamma: problem.finish(coefficients(gamma), u), gamma)
        if callback(Step(iteration, float(residuals.max(initial=0.0)), float(values.sum()), solution)):
            stopped.append(iteration)
        return bool(stopped)

    stopped: list[int] = []

    result = conjugate_gradients(
        equations.operator,
        equations.right_side(right),
        start=None if start is None else equations.start(start.detach().cpu().double().numpy()),
        tolerance=tolerance,
        max_iterations=max_iterations,
        values_at_zero=problem.value_at_zero,
        callback=report,
    )
    beta = coefficients(result.solution)
    left = max_iterations - result.iterations
    drowned = bool(result.rounded.any()) or _drowned(beta, result.values[-1], equations.scale)
    if problem.K.dtype == torch.float32 and drowned and left > 2 * WINDOW and not stopped:
        wide = problem.widened()
        if wide is not None:
            rest = falkon(
                wide,
                tolerance=tolerance,
                max_iterations=left,
                start=torch.from_numpy(beta),
                callback=None if callback is None else lambda step: callback(step.after(result.iterations)),
            )
            return Solution(rest.coefficients, rest.intercept, rest.record.after(result.residuals, result.values))
    converged = bool(result.converged.all())
    record = Record(
        solver="falkon",
        iterations=result.iterations,
        residuals=result.residuals.max(axis=1, initial=0.0).tolist(),
        converged=converged,
        message=_message(result),
        jitter=equations.pair.jitter,
        objective=np.maximum(result.values[-1], 0.0).tolist(),
        objective_history=result.values.sum(axis=1).tolist(),
        seconds=problem.seconds,
    )
    return Solution(*problem.finish(beta, u), record)


def _message(result: CGResult) -> str:
    if result.rounded.any():
        return f"rounding stopped progress after {result.iterations} iterations"
    return "the objective has settled" if result.converged.all() else f"stopped after {result.iterations} iterations"


def _drowned(beta: Array, values: Array, scale: float) -> bool:
    """Whether rounding of float32 entries of K, ε‖β‖ in predictions, is a visible part of the error they have."""
    noise = torch.finfo(torch.float32).eps * scale * np.linalg.norm(beta, axis=0)
    return bool((noise > ROUNDING_SHARE * np.sqrt(np.maximum(values, 0.0))).any())
