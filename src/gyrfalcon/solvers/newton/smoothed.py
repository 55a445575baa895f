"""Losses with kinks, by Newton's method on rounded corners that become sharp."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_numpy
from gyrfalcon.losses import has_kink, smoothed

from ..risk import Risk
from ..solution import Callback, Keep, Record, Snapshot, Solution, Step
from ..solver import Run, Start, Traits
from .solver import Newton
from .state import NewtonSolver, NewtonState

SHARPENING = 0.25  # the factor from one width to the next
GRADIENT = 0.3  # relative gradient that ends a width, over the root of the tolerance: objectives err by its square
WARM_GAP = 0.05  # relative gap of the width that a start begins with


@dataclass(frozen=True)
class SmoothedNewton(NewtonSolver):
    """Minimize the risk of a loss with a kink: `Newton` on `losses.smoothed`, over widths that fall geometrically.

    Each width begins where the one before ended. The minimizer for a width proves by duality how far the risk with the
    kink can be from its minimum, and the solve ends when that is small enough. Losses without kinks go to `Newton`.

    Parameters
    ----------
    tolerance : float
        The largest duality gap, relative to the objective.
    max_iterations : int
        Newton steps, over all widths.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X)
    >>> Y[::5] += 10  # outliers
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> risk = gf.solvers.Risk(K, Y, penalty=1e-5, loss=gf.losses.Absolute())
    >>> solution = gf.solvers.solve(risk, gf.solvers.SmoothedNewton())
    >>> bool((K @ solution.coefficients - torch.sin(X)).abs().mean() < 0.02)
    True
    """

    tolerance: float = 3e-4
    max_iterations: int = 200

    name: ClassVar[str] = "smoothed_newton"
    traits: ClassVar[Traits] = Traits("kinked", iterates=True, starts=True, resumes=True)

    def _solve(self, state: NewtonState, problem: Risk, run: Run) -> Solution:
        if not has_kink(problem.loss):
            found = Newton(self.tolerance, self.max_iterations)._solve(state, problem, run)
            return dataclasses.replace(found, record=dataclasses.replace(found.record, solver=self.name))
        start, resume = run.start, run.resume
        at = _Progress(_first_width(problem, start)) if resume is None else _Progress.of(resume)
        if resume is not None:
            resume = resume[0]["newton"], resume[1]
        while True:
            loss = smoothed(problem.loss, at.width)
            newton = Newton(GRADIENT * self.tolerance**0.5, self.max_iterations - at.iterations)
            rounded = dataclasses.replace(problem, loss=loss)
            found = newton._solve(state, rounded, Run(start, at.telling(run), resume, at.keeping(run)))
            F = _predict(problem, (found.coefficients, found.intercept))
            difference = problem.loss.by_output(F, problem.Y) - loss.by_output(F, problem.Y)
            objective = np.array(found.record.objective) + as_numpy(problem.mean(difference))
            gap = float(problem.mean(loss.gap(F, problem.Y))) / (float(objective.sum()) or 1.0)
            at.end(found.record, gap)
            if not found.record.converged or gap <= self.tolerance or at.iterations == self.max_iterations:
                break
            start, resume = (found.coefficients, found.intercept), None
            at.width *= SHARPENING
        record = found.record
        if record.converged:
            words = f"stopped after {at.iterations} iterations, at a relative duality gap of {gap:.1e}"
            message = "the duality gap reached the tolerance" if gap <= self.tolerance else words
        else:
            message = record.message.replace(f"after {newton.max_iterations}", f"after {at.iterations}")
        record = dataclasses.replace(
            record,
            solver=self.name,
            iterations=at.iterations,
            residuals=[*at.gaps, gap],
            converged=record.converged and gap <= self.tolerance,
            message=message,
            objective=objective.tolist(),
            objective_history=at.objectives,
            inner_iterations=at.inner,
            passes=at.passes,
        )
        return dataclasses.replace(found, record=record)


@dataclass
class _Progress:
    """The width that Newton's method is at, and what the widths before took.

    `gap` is the relative duality gap that the width before has proved, and `gaps` has it for every step.
    """

    width: float
    gap: float = 1.0
    inner: int = 0
    passes: int = 0
    gaps: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)

    @property
    def iterations(self) -> int:
        return len(self.gaps)

    def end(self, record: Record, gap: float) -> None:
        """Add what a width took."""
        self.objectives += record.objective_history[bool(self.objectives) :]
        self.gaps += [self.gap] * record.iterations
        self.gap, self.inner, self.passes = gap, self.inner + record.inner_iterations, self.passes + record.passes

    def telling(self, run: Run) -> Callback | None:
        """A callback of Newton's method that tells of the whole solve."""
        told = run.callback

        def tell(step: Step) -> bool:
            assert told is not None
            return bool(told(dataclasses.replace(step, iteration=self.iterations + step.iteration, residual=self.gap)))

        return None if told is None else tell

    def keeping(self, run: Run) -> Keep | None:
        kept = run.keep
        return None if kept is None else lambda take: kept(partial(self._snapshot, take))

    def _snapshot(self, take: Callable[[], Snapshot]) -> Snapshot:
        facts, arrays = take()
        own = {"width": self.width, "gap": self.gap, "inner": self.inner, "passes": self.passes}
        history = {"gaps": np.array(self.gaps), "objectives_so_far": np.array(self.objectives)}
        return {"newton": facts, **own}, {**arrays, **history}

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Progress:
        facts = {name: value for name, value in snapshot[0].items() if name != "newton"}
        histories = (snapshot[1][name].tolist() for name in ("gaps", "objectives_so_far"))
        return cls(**facts, **dict(zip(("gaps", "objectives"), histories, strict=True)))


def _predict(problem: Risk, found: tuple[Tensor, Tensor]) -> Tensor:
    F: Tensor = (problem.K @ found[0].to(problem.K.device, problem.K.dtype)).double()
    return F + found[1].to(F)


def _first_width(problem: Risk, start: Start | None) -> float:
    """The mean distance from the kink at f = 0; for a start, the widest that comes near to its objective."""
    F = torch.zeros(problem.Y.shape, dtype=torch.float64, device=problem.Y.device)
    width = float(problem.mean(smoothed(problem.loss, 1.0).distances(F, problem.Y)).mean()) or 1.0
    if start is None:
        return width
    beta, b = start if isinstance(start, tuple) else (start, torch.zeros(problem.Y.shape[1]))
    problem.check_start(beta)
    F = _predict(problem, (beta, b))
    bound = WARM_GAP * problem.empirical(F)
    while 0 < bound < float(problem.mean(smoothed(problem.loss, width).gap(F, problem.Y))):
        width *= SHARPENING
    return width
