"""What every solver is: a small value with its own settings that prepares a state once and answers for many targets."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.losses import Loss, Squared, has_kink
from gyrfalcon.matrix import KernelMatrix

from .problem import LeastSquares, Problem, check_weights
from .risk import Risk
from .solution import Callback, Keep, Snapshot, Solution

Start = Tensor | tuple[Tensor, Tensor]
"""Coefficients of shape (m, t) to begin from, or a pair with the intercept, of shape (t,)."""


@dataclass(frozen=True)
class Traits:
    """What a solver can do and what it needs; what it cannot do is refused by name.

    Attributes
    ----------
    losses : "squared", "smooth", "kinked" or "convex"
        The losses that it minimizes: the squared loss; those with two derivatives; those and losses that name their
        kink; any.
    needs_penalty : bool
        Whether the penalty regularizes. Otherwise the number of iterations does, and a penalty of zero is usual.
    weights : bool
        Whether rows may have weights.
    iterates : bool
        Whether it takes a callback.
    starts : bool
        Whether it can begin from given coefficients.
    resumes : bool
        Whether it can be cut short and go on from a snapshot.
    holds_out : bool
        Whether it stops early by rows that it holds out itself.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.solvers.Falkon.traits.losses, gf.solvers.Direct.traits.iterates, gf.solvers.Nytro.traits.holds_out
    ('squared', False, True)
    """

    losses: str = "squared"
    needs_penalty: bool = True
    weights: bool = True
    iterates: bool = False
    starts: bool = False
    resumes: bool = False
    holds_out: bool = False

    def minimizes(self, loss: Loss) -> bool:
        able = {"convex": True, "smooth": loss.smooth, "kinked": loss.smooth or has_kink(loss)}
        return isinstance(loss, Squared) or able.get(self.losses, False)


class State:
    """What a solver prepared from K, weights and whether there is an intercept: all that does not depend on targets.

    Solvers make parts of it when they first need them, and keep them for the targets and penalties to come.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> solver = gf.solvers.Direct()
    >>> state = solver.prepare(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]))
    >>> [solver.solve(state, Y, 1e-6).coefficients.shape for Y in (X.sin(), torch.cat([X.cos(), X.exp()], 1))]
    [torch.Size([30, 1]), torch.Size([30, 2])]
    """

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        check_weights(weights, K.shape[0])
        self.K, self.weights, self.intercept = K, weights, intercept
        self.seconds: dict[str, float] = {}

    @property
    def total_weight(self) -> float:
        return float(self.K.shape[0]) if self.weights is None else float(self.weights.sum(dtype=torch.float64))

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Run:
    """How a solve begins, whom it tells, and what it keeps: what `_solve` of a solver is given.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.solvers import Run
    >>> Run(start=(torch.zeros(3, 1), torch.zeros(1))).coefficients.shape
    torch.Size([3, 1])
    """

    start: Start | None = None
    callback: Callback | None = None
    resume: Snapshot | None = None
    keep: Keep | None = None

    @property
    def coefficients(self) -> Tensor | None:
        """The coefficients of the start, without its intercept."""
        return self.start[0] if isinstance(self.start, tuple) else self.start


class Solver(ABC, Generic[S]):
    """A way to solve penalized problems on a KernelMatrix; subclasses are frozen dataclasses of their settings.

    To write one, define `prepare` and `_solve`, and say in `traits` what it can do. `_solve` gets a problem that was
    checked, asks its `K` for products, never for points, and returns a `Solution`.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10])
    >>> solver = gf.solvers.Falkon(tolerance=1e-6)
    >>> solver
    Falkon(tolerance=1e-06, max_iterations=100)
    >>> state = solver.prepare(K, intercept=True)
    >>> solution = solver.solve(state, torch.sin(X), penalty=1e-6)
    >>> bool((K @ solution.coefficients + solution.intercept - torch.sin(X)).abs().max() < 0.01)
    True
    """

    name: ClassVar[str]
    traits: ClassVar[Traits]

    @abstractmethod
    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> S:
        """What does not depend on the targets.

        Parameters
        ----------
        K : KernelMatrix of shape (n, m)
        weights : tensor of shape (n, 1), optional
        intercept : bool
            Whether the model has one, which is not penalized.
        """

    @abstractmethod
    def _solve(self, state: S, problem: Any, run: Run) -> Solution:
        """The solution of a `LeastSquares` problem, or of a `Risk` if the solver minimizes other losses."""

    def solve(
        self,
        state: S,
        Y: Tensor,
        penalty: float,
        *,
        loss: Loss | None = None,
        floor: Any = 0.0,
        start: Start | None = None,
        callback: Callback | None = None,
        resume: Snapshot | None = None,
        keep: Keep | None = None,
    ) -> Solution:
        """Minimize Σᵢ wᵢ ℓ(f(xᵢ) + b, yᵢ) / Σᵢ wᵢ + penalty ‖f‖² over f = Σⱼ βⱼ k(·, cⱼ) and, with an intercept, b.

        Parameters
        ----------
        state : State
            As `prepare` of this solver made it.
        Y : tensor of shape (n, t)
        penalty : float
        loss : Loss, optional
            Squared if not given.
        floor : float or array of shape (t,)
            What the objective of least squares holds besides; see `LeastSquares`.
        start : tensor of shape (m, t), or a pair with the intercept, of shape (t,), optional
            Where to begin.
        callback : callable (Step) -> bool, optional
            Called after each iteration; True ends the solve.
        resume : Snapshot, optional
            Of an earlier solve of the same problem, to go on from; it ends as that one would have, bit for bit.
        keep : callable, optional
            Called between iterations with a function that takes a snapshot.
        """
        loss = Squared() if loss is None else loss
        self.check(loss=loss, weights=state.weights, start=start, callback=callback, resume=resume, keep=keep)
        problem: Problem
        if isinstance(loss, Squared) and self.traits.losses == "squared":
            problem = LeastSquares(state.K, Y, penalty, state.weights, state.intercept, floor=floor)
        else:
            problem = Risk(state.K, Y, penalty, loss, state.weights, state.intercept)
        problem.seconds, state.seconds = state.seconds, {}
        solution = self._solve(state, problem, Run(start, callback, resume, keep))
        if isinstance(problem, Risk) and isinstance(loss, Squared) and np.any(floor):
            objective = (np.array(solution.record.objective) + floor).tolist()
            record = dataclasses.replace(solution.record, objective=objective)
            solution = dataclasses.replace(solution, record=record)
        return solution

    def to_dict(self) -> dict[str, Any]:
        """The name and the settings, as JSON can hold them."""
        settings = dataclasses.asdict(self)  # type: ignore[call-overload]
        return {"solver": self.name, **settings}

    def check(self, *, loss: Loss, weights: Any = None, **options: Any) -> None:
        """Refuse by name what this solver cannot do."""
        if not self.traits.minimizes(loss):
            able = {"smooth": "losses with two derivatives", "kinked": "losses that name their kink"}.get(
                self.traits.losses, "least squares"
            )
            other = "'newton' or 'auto'" if loss.smooth else "'smoothed_newton' or 'auto'"
            other = other if loss.smooth or has_kink(loss) else "'sgd' or 'auto'"
            raise ValueError(f"solver={self.name!r} solves {able} only, not the {loss.name} loss: take {other}")
        if weights is not None and not self.traits.weights:
            raise ValueError(f"solver={self.name!r} takes no weights: drop them, or take another solver")
        able_to = {
            "start": self.traits.starts,
            "callback": self.traits.iterates,
            "resume": self.traits.resumes,
            "keep": self.traits.resumes,
        }
        for option, value in options.items():
            if value is not None and not able_to[option]:
                raise ValueError(f"{option}: solver={self.name!r} takes none: leave it out, or take another solver")


def solve(
    problem: LeastSquares | Risk,
    solver: Solver[Any] | str = "auto",
    *,
    start: Start | None = None,
    callback: Callback | None = None,
    resume: Snapshot | None = None,
    keep: Keep | None = None,
) -> Solution:
    """Prepare and solve one problem; to solve several on the same points, see `Solver`.

    Parameters
    ----------
    problem : LeastSquares or Risk
    solver : Solver or str
        A name stands for that solver with its default settings, "auto" for the one that is expected to be fastest.
    start, callback, resume, keep
        As for `Solver.solve`.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10])
    >>> solution = gf.solvers.solve(gf.solvers.LeastSquares(K, torch.sin(X), penalty=1e-6))
    >>> bool((K @ solution.coefficients - torch.sin(X)).abs().max() < 0.01)
    True
    """
    from .choice import as_solver, choose  # the siblings, which are built on this module

    chosen = choose(problem)[0] if isinstance(solver, str) and solver == "auto" else as_solver(solver)
    loss = problem.loss if isinstance(problem, Risk) else None
    floor = problem.floor if isinstance(problem, LeastSquares) else 0.0
    state = chosen.prepare(problem.K, problem.weights, problem.intercept)
    return chosen.solve(
        state,
        problem.Y,
        problem.penalty,
        loss=loss,
        floor=floor,
        start=start,
        callback=callback,
        resume=resume,
        keep=keep,
    )


def solver_from_dict(description: Mapping[str, Any]) -> Solver[Any]:
    """The solver that `Solver.to_dict` described."""
    from .choice import as_solver
    from .stopping import EarlyStopping

    settings = dict(description)
    solver = as_solver(settings.pop("solver"))
    if isinstance(settings.get("stopping"), Mapping):
        settings["stopping"] = EarlyStopping(**settings["stopping"])
    return dataclasses.replace(solver, **settings)  # type: ignore[type-var]


def check_number(name: str, value: Any, *, least: float = 0.0, below: float = np.inf) -> None:
    """Refuse a setting that is not a number in its range."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not least <= value < below:
        raise ValueError(f"{name} must be a number, {least:g} or more and below {below:g}, got {value!r}")
