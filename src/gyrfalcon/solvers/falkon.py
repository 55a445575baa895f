"""Falkon: preconditioned conjugate gradients on the Nyström normal equations."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

from gyrfalcon.centers.rows import take
from gyrfalcon.linalg.cg import WINDOW, CGResult, CGState, conjugate_gradients
from gyrfalcon.linalg.triangles import SingularError, TrianglePair
from gyrfalcon.matrix import KernelMatrix

from . import rates
from .features import KEPT_JITTER, excess, whitened_rows
from .problem import LeastSquares, Problem, as_numpy, directions_of, features_of, noise_floor
from .rounding import drowned
from .solution import Callback, Keep, Record, Snapshot, Solution, Step

Array = np.ndarray[Any, Any]


MANY_ROWS = 4  # times as many as are sampled for the preconditioner, at least
MANY_ITERATIONS = 12  # without such a sample, at least: it may cost some where there are few

# With an intercept, constants that are nearly of the form Kβ cost nearly nothing. The preconditioner leaves them this
# part of their weight: less would amplify the rounding of products with K, which is not free of a constant.
CONSTANTS = {torch.float32: 1e-3, torch.float64: 1e-8}


class Factors(NamedTuple):
    """The triangles of Falkon's preconditioner, the part of their jitter that the penalty is to be freed of again, and
    the largest k(c, c)."""

    pair: TrianglePair
    removable: float
    scale: float


def factor(problem: Problem, penalty: float | None) -> Factors:
    """Factor k(C, C), lifted above rounding, for problems on K with that penalty; see `TrianglePair`."""
    m = problem.K.shape[1]
    with problem.timed("factor"):
        kernel = problem.K.between_centers()
        scale = float(kernel.diagonal().max()) if m else 1.0
        floor = noise_floor(m, problem.K.dtype) * scale
        least = None if penalty is None else max(penalty, np.finfo(float).eps * scale)
        pair = TrianglePair(kernel, least, floor)
    return Factors(pair, pair.jitter * (1 - KEPT_JITTER), scale)


class NormalEquations:
    """(KᵀWK/Σw - uuᵀ + penalty·k(C, C)) β = b in the coordinates γ = A T β, in which it is well conditioned.

    T, A and the vectors are float64 and so are the sums over n, while K is evaluated in the type of X. The jitter δ in
    TᵀT = k(C, C) + δI is subtracted again, all but a hundredth of it, so it does not act as a penalty.

    A comes from k(C, C)²/m in the place of KᵀWK/Σw, or from some of the rows, evenly spaced, if their number is given,
    which costs as much as factoring several times but halves the iterations. The matrix is near the identity then:
    `sharp`.
    """

    def __init__(self, problem: LeastSquares, sample: int | None = None):
        self.problem = problem
        self.pair, _, self.scale = factor(problem, None)
        with problem.timed("factor"):
            penalty = max(problem.penalty, np.finfo(float).eps * self.scale)
            share = 1 - CONSTANTS[problem.K.dtype] if problem.intercept else 0.0
            self.sharp = sample is not None and self._sharpen(sample, penalty, share)
            if not self.sharp:
                self.pair.refactor(penalty, centered=share)
        rounding = torch.finfo(problem.K.dtype).eps * self.scale
        self._leak = excess(problem.penalty, self.pair.jitter, rounding)

    def _sharpen(self, count: int, penalty: float, share: float) -> bool:
        """Make A from so many rows, less that share of what is constant; False if that fails."""
        problem, K, m = self.problem, self.problem.K, self.problem.K.shape[1]
        rows = np.unique(np.linspace(0, K.shape[0] - 1, count).astype(int))
        part = KernelMatrix(K.kernel, take(K.X, rows), K.C, memory_budget=K.memory_budget, cache=False)
        chosen = torch.from_numpy(rows).to(K.device)
        weights = None if problem.weights is None else problem.weights[chosen]
        if weights is not None and not weights.any():
            return False
        sample = LeastSquares(part, problem.Y[chosen, :1], problem.penalty, weights, problem.intercept)
        moments, mean = np.zeros((m, m), order="F"), np.zeros(m)
        for _, Z, targets in whitened_rows(sample, self.pair.upper()):
            moments = blas.dsyrk(1 / sample.total_weight, Z, beta=1.0, c=moments, lower=1, overwrite_c=1)
            mean = blas.dgemv(1 / sample.total_weight, Z, targets[:, -1], beta=1.0, y=mean, overwrite_y=1)
        moments = blas.dsyr(-share, mean, lower=1, a=moments, overwrite_a=1)
        try:
            self.pair.refactor_from(moments, penalty)
        except SingularError:  # rounding, where k(C, C) is nearly singular
            return False
        return True

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
    resume: Snapshot | None = None,
    keep: Keep | None = None,
) -> Solution:
    """Solve by conjugate gradients in γ, β = T⁻¹A⁻¹γ, one pass over X an iteration.

    float32 runs at float32 speed without losing what small penalties need; see `NormalEquations`. If the coefficients
    end so large that float32 entries of K are not enough for them, the solve goes on with float64 entries.

    Parameters
    ----------
    problem : LeastSquares
    tolerance : float
        An output is done when its objective is expected to fall by less than this part of itself in all iterations to
        come: from its residual, if the preconditioner is made from a sample of rows, or how it fell in the last six.
    max_iterations : int
    start : tensor of shape (m, t), optional
        Coefficients to begin from.
    callback : callable (Step) -> bool, optional
        Called after each iteration; True ends the solve.
    resume : Snapshot, optional
        Of an earlier solve of the same problem, to go on from; it ends as that one would have, bit for bit.
    keep : callable, optional
        Called between iterations with a function that takes a snapshot.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> solution = gf.solvers.falkon(problem)
    >>> bool((problem.K @ solution.coefficients - problem.Y).abs().max() < 0.01)
    True
    """

    def in_float64(earlier: _Histories, start: Tensor | None, resume: Snapshot | None) -> Solution | None:
        wide = problem.widened()
        if wide is None:
            return None
        rest = falkon(
            wide,
            tolerance=tolerance,
            max_iterations=max_iterations - earlier.iterations,
            start=start,
            callback=None if callback is None else lambda step: callback(step.after(earlier.iterations)),
            resume=resume,
            keep=None if keep is None else lambda take: keep(lambda: earlier.before(take())),
        )
        return Solution(rest.coefficients, rest.intercept, rest.record.after(earlier.residuals, earlier.values))

    if resume is not None and (split := _Histories.split(resume)) is not None:
        solution = in_float64(split[0], None, split[1])
        assert solution is not None
        return solution
    if start is not None:
        problem.check_start(start)
    K = problem.K
    equations = NormalEquations(
        problem, sample_rows(*K.shape, features_of(K.X), K.dtype, problem.penalty, directions_of(K))
    )
    right, u = problem.sides  # made again after a resume too: K may be kept in memory from its second product on
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
        near_identity=equations.sharp,
        callback=report,
        resume=None if resume is None else CGState.of(resume[1]),
        keep=None if keep is None else lambda state: keep(lambda: ({}, state.arrays())),
    )
    beta = coefficients(result.solution)
    left = max_iterations - result.iterations
    rounds = bool(result.rounded.any()) or drowned(beta, result.values[-1], equations.scale)
    if K.dtype == torch.float32 and rounds and left > 2 * WINDOW and not stopped:
        wider = in_float64(_Histories(result.residuals, result.values), torch.from_numpy(beta), None)
        if wider is not None:
            return wider
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


class _Histories(NamedTuple):
    """Of a solve in float32 that goes on in float64."""

    residuals: Array
    values: Array

    @property
    def iterations(self) -> int:
        return len(self.residuals) - 1

    def before(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot of the solve in float64, with these."""
        facts, arrays = snapshot
        return facts, arrays | {"float32.residuals": self.residuals, "float32.values": self.values}

    @classmethod
    def split(cls, snapshot: Snapshot) -> tuple[_Histories, Snapshot] | None:
        """What `before` put together; None for a snapshot of the solve in float32."""
        facts, arrays = snapshot
        arrays = dict(arrays)
        if "float32.residuals" not in arrays:
            return None
        return cls(arrays.pop("float32.residuals"), arrays.pop("float32.values")), (facts, arrays)


def sample_rows(
    n: int, m: int, features: float, dtype: torch.dtype, penalty: float, directions: float | None = None
) -> int | None:
    """How many rows to precondition with, if that costs less than the iterations it saves."""
    directions = features if directions is None else directions
    plain = rates.iterations(n, m, directions, penalty)
    best, most = None, 0.0
    for per_center in rates.SHARE if plain >= MANY_ITERATIONS else ():
        count = per_center * m
        saved = plain - rates.iterations(n, m, directions, penalty, per_center)
        gain = saved * n * m * rates.entry(features, dtype) - rates.whitened_gram(count, m, features) - rates.SAMPLING
        if n >= MANY_ROWS * count and gain > most:
            best, most = count, gain
    return best


def _message(result: CGResult) -> str:
    if result.rounded.any():
        return f"rounding stopped progress after {result.iterations} iterations"
    return "the objective has settled" if result.converged.all() else f"stopped after {result.iterations} iterations"
