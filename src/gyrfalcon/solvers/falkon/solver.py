"""Falkon: preconditioned conjugate gradients on the Nyström normal equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.cg import WINDOW, CGResult, CGState, conjugate_gradients
from gyrfalcon.matrix import KernelMatrix

from ..problem import LeastSquares
from ..rounding import rounding_shows
from ..solution import Record, Snapshot, Solution, Step
from ..solver import Run, Solver, Traits, check_number
from ..stopping import check_count
from .equations import FalkonState, NormalEquations, sample_rows


@dataclass(frozen=True)
class Falkon(Solver[FalkonState]):
    """Solve by conjugate gradients in γ, β = T⁻¹A⁻¹γ, one pass over X an iteration.

    float32 runs at float32 speed without losing what small penalties need; see `NormalEquations`. If the coefficients
    end so large that float32 entries of K are not enough for them, the solve goes on with float64 entries.

    Parameters
    ----------
    tolerance : float
        An output is done when its objective is expected to fall by less than this part of itself in all iterations to
        come: from its residual, if the preconditioner is made from a sample of rows, or how it fell in the last six.
    max_iterations : int

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> solution = gf.solvers.solve(problem, gf.solvers.Falkon(tolerance=1e-6))
    >>> bool((problem.K @ solution.coefficients - problem.Y).abs().max() < 0.01)
    True
    """

    tolerance: float = 1e-3
    max_iterations: int = 100

    name: ClassVar[str] = "falkon"
    traits: ClassVar[Traits] = Traits(iterates=True, starts=True, resumes=True)

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance)
        check_count("max_iterations", self.max_iterations)

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> FalkonState:
        return FalkonState(K, weights, intercept)

    def _solve(self, state: FalkonState, problem: LeastSquares, run: Run) -> Solution:
        if run.resume is not None and (split := _Histories.split(run.resume)) is not None:
            solution = self._in_float64(problem, run, split[0], None, split[1])
            assert solution is not None
            return solution
        start, K = run.coefficients, state.K
        if start is not None:
            problem.check_start(start)
        rough = K.kernel.rough
        sample = sample_rows(*K.shape, K.features, K.dtype, problem.penalty, K.effective_features, rough=rough)
        equations = NormalEquations(problem, sample, state)
        right, u = problem.sides  # made again after a resume too: K may be kept in memory from its second product on
        stopped: list[int] = []

        def report(iteration: int, gamma: Array, residuals: Array, values: Array) -> bool:
            if run.callback is None:
                return False
            solution = partial(lambda gamma: problem.finish(equations.coefficients(gamma), u), gamma)
            if run.callback(Step(iteration, float(residuals.max(initial=0.0)), float(values.sum()), solution)):
                stopped.append(iteration)
            return bool(stopped)

        keep = run.keep
        result = conjugate_gradients(
            equations.operator,
            equations.right_side(right),
            start=None if start is None else equations.start(as_numpy(start, np.float64)),
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            values_at_zero=problem.value_at_zero,
            near_identity=equations.sharp,
            callback=report,
            resume=None if run.resume is None else CGState.of(run.resume[1]),
            keep=None if keep is None else lambda state: keep(lambda: ({}, state.arrays())),
        )
        beta = equations.coefficients(result.solution)
        left = self.max_iterations - result.iterations
        rounds = bool(result.rounded.any()) or rounding_shows(beta, result.values[-1], equations.scale)
        if K.dtype == torch.float32 and rounds and left > 2 * WINDOW and not stopped:
            earlier = _Histories(result.residuals, result.values)
            wider = self._in_float64(problem, run, earlier, torch.from_numpy(beta), None)
            if wider is not None:
                return wider
        record = Record(
            solver=self.name,
            iterations=result.iterations,
            residuals=result.residuals.max(axis=1, initial=0.0).tolist(),
            converged=bool(result.converged.all()),
            message=_message(result),
            jitter=equations.pair.jitter,
            objective=np.maximum(result.values[-1], 0.0).tolist(),
            objective_history=result.values.sum(axis=1).tolist(),
            seconds=problem.seconds,
            passes=1 + result.iterations,
        )
        return Solution(*problem.finish(beta, u), record)

    def _in_float64(
        self, problem: LeastSquares, run: Run, earlier: _Histories, start: Tensor | None, resume: Snapshot | None
    ) -> Solution | None:
        """The rest of a solve with K evaluated in float64, or None if the points would not fit the budget then."""
        wide = problem.widened()
        if wide is None:
            return None
        callback, keep = run.callback, run.keep
        solver = replace(self, max_iterations=max(1, self.max_iterations - earlier.iterations))
        rest = solver._solve(
            solver.prepare(wide.K, wide.weights, wide.intercept),
            wide,
            Run(
                start=start,
                callback=None if callback is None else lambda step: callback(step.after(earlier.iterations)),
                resume=resume,
                keep=None if keep is None else lambda take: keep(lambda: earlier.before(take())),
            ),
        )
        return Solution(rest.coefficients, rest.intercept, rest.record.after(earlier.residuals, earlier.values))


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


def _message(result: CGResult) -> str:
    if result.rounded.any():
        return (
            f"ended after {result.iterations} iterations, as far as rounding allows: a larger penalty would allow more"
        )
    return "the objective has settled" if result.converged.all() else f"stopped after {result.iterations} iterations"
