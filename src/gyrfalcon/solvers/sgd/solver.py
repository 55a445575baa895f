"""Stochastic gradients: any convex loss, smooth or not, regularized by the size and the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix

from ..risk import Risk
from ..solution import FilterPath, Record, Snapshot, Solution, Step
from ..solver import Run, Solver, Start, State, Traits
from ..stopping import DEFAULT_STOPPING, EarlyStopping, Split, Watch, check_count
from .runs import VOTES, Models, Runs
from .spaces import Space, space_of

AUTOMATIC_STEPS = (1 / 16, 1 / 2, 4.0)  # over max k(x, x): the best is chosen on rows held out


class SGDState(State):
    """The space that the models live in, with features that are kept if they fit, and which rows are held out."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool, rule: EarlyStopping, seed: int):
        super().__init__(K, weights, intercept)
        with self.timed("features"):
            self.space = space_of(K)
        self.split = Split.of(K.shape[0], rule.validation, seed, contiguous=K.streamed)
        self.split.weigh(None if weights is None else as_numpy(weights, np.float64)[:, 0])


@dataclass(frozen=True)
class SGD(Solver[SGDState]):
    """Follow the gradient of one row, or of a small batch, at a time: f ← (1 - 2η·penalty)·f - η ∂ℓ k(·, x).

    The t-th step has the size η = step·t^(-decay); rows are visited in a new random order in every epoch. With centers
    other than the points, k(·, x) is projected onto their span. Where X holds features and the centers are the unit
    vectors, with `kernels.Linear()`, the coefficients are the weights of a linear model, f(x) = ⟨w, x⟩ + b. An
    intercept takes steps as if it were the weight of a feature as large as the largest point.

    One epoch with the step chosen by hold-out is SGM; many epochs, stopped early, are SIGM. Either way a penalty of
    zero will do: the sizes and the number of steps regularize. Objectives that a callback sees are those of rows as
    they were met; the residual is that relative to the start.

    Parameters
    ----------
    stopping : EarlyStopping
        Its errors are mean losses.
    max_iterations : int
        Epochs: how often every row is visited.
    step : "auto", float or sequence of floats, optional
        Several are tried at once and the best is chosen on rows held out; "auto" is 1/16, 1/2 and 4 over max k(x, x).
        None is one step, 1/√(batches in an epoch) without decay and 1/4 with it, both over max k(x, x).
    decay : float or sequence of floats
        One for each step, or for all; several with one step are tried like several steps.
    batch_size : int
    averaging : "steps", "uniform" or "polynomial", optional
        The solution is not the last model but an average of all before a step, with weights η, 1 or t³.
    random_state : int
        Decides the order of the rows, and which are held out.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X)
    >>> Y[::5] += 10  # outliers
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> risk = gf.solvers.Risk(K, Y, penalty=0.0, loss=gf.losses.Absolute())
    >>> solution = gf.solvers.solve(risk, gf.solvers.SGD())
    >>> bool((K @ solution.coefficients - torch.sin(X)).abs().mean() < 0.05)
    True
    """

    stopping: EarlyStopping = DEFAULT_STOPPING
    max_iterations: int = 100
    step: str | float | Sequence[float] | None = "auto"
    decay: float | Sequence[float] = 0.5
    batch_size: int = 1
    averaging: str | None = "polynomial"
    random_state: int = 0

    name: ClassVar[str] = "sgd"
    traits: ClassVar[Traits] = Traits(
        "convex", needs_penalty=False, iterates=True, starts=True, resumes=True, holds_out=True
    )

    def __post_init__(self) -> None:
        check_count("max_iterations", self.max_iterations)
        check_count("batch_size", self.batch_size)
        if self.averaging is not None and self.averaging not in VOTES:
            raise ValueError(f"averaging must be one of {sorted(VOTES)} or None, got {self.averaging!r}")
        if isinstance(self.step, str) and self.step != "auto":
            raise ValueError(f"step must be 'auto', a positive number, several, or None, got {self.step!r}")

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> SGDState:
        return SGDState(K, weights, intercept, self.stopping, self.random_state)

    def _solve(self, state: SGDState, problem: Risk, run: Run) -> Solution:
        steps, decays = self._sizes(problem, state.space)
        if len(steps) > 1 and not state.split.held:
            raise ValueError(
                "step, decay: several are chosen among on rows held out, which validation=None does not leave"
            )
        batch = min(self.batch_size, state.K.shape[0])
        runs = Runs(problem, state.space, state.split, steps, decays, batch, self.averaging, self.random_state)
        if run.start is not None:
            runs.begin(*_checked(run.start, problem))
        with problem.timed("iterate"):
            return self._iterate(problem, runs, run)

    def _sizes(self, problem: Risk, space: Space) -> tuple[Array, Array]:
        """Step and decay of each run."""
        step: Any = self.step
        if isinstance(step, str):
            largest = 0.25 / max(problem.penalty, 1e-300)
            step = [min(part / (space.peak or 1.0), largest) for part in AUTOMATIC_STEPS]
        return _sizes(problem, space, step, self.decay, self.batch_size)

    def _iterate(self, problem: Risk, runs: Runs, run: Run) -> Solution:
        held, watch = bool(runs.split.held), Watch(self.stopping)
        at = _Progress.begin(runs) if run.resume is None else _Progress.of(run.resume, runs, problem.K.device)
        for seen in at.errors:
            watch.see(float(seen.min()))
        message, ended = f"stopped after {self.max_iterations} epochs", not held
        while at.epochs < self.max_iterations:
            if watch.tired:
                message, ended = f"the validation error is lowest after {at.chosen} epochs", True
                break
            at.objectives.append(runs.epoch(at.epochs))
            if not runs.state.alive.all(0).any():
                raise ValueError(f"step is too large: the coefficients diverged with {runs.steps.tolist()}")
            now = 0
            if held:
                at.errors.append(runs.errors())
                now = int(at.errors[-1].argmin())
            if not held or watch.see(float(at.errors[-1].min())):
                at.choose(now, runs)
            value, first = float(at.objectives[-1][now].sum()), float(at.objectives[0][now].sum())
            if run.callback is not None and run.callback(
                Step(at.epochs, value / (first or 1.0), value, partial(runs.solution, now))
            ):
                message, ended = "stopped by the callback", False
                break
            if run.keep is not None:
                run.keep(partial(at.snapshot, runs))
        objectives = [float(values[at.size].sum()) for values in at.objectives]
        errors = [float(values[at.size]) for values in at.errors]
        record = Record(
            solver=self.name,
            iterations=at.epochs,
            residuals=[value / (objectives[0] or 1.0) for value in objectives],
            converged=ended,
            message=message,
            jitter=runs.space.jitter,
            objective=at.objectives[at.chosen][at.size].tolist(),
            objective_history=objectives,
            validation_errors=errors,
            passes=at.epochs,
            seconds=problem.seconds,
            reason=f"step {runs.steps[at.size]:.3g}, decay {runs.decays[at.size]:.3g}",
            path=FilterPath(list(range(len(objectives))), objectives, errors, at.chosen, "epoch"),
        )
        return Solution(*at.best, record)


@dataclass
class _Progress:
    """Objectives and validation errors after each epoch, by step size, and the best model so far."""

    objectives: list[Array]
    errors: list[Array]
    best: tuple[Tensor, Tensor]
    size: int = 0
    chosen: int = 0

    @property
    def epochs(self) -> int:
        return len(self.objectives) - 1

    @classmethod
    def begin(cls, runs: Runs) -> _Progress:
        return cls([runs.objectives()], [runs.errors()] if runs.split.held else [], runs.solution(0))

    def choose(self, size: int, runs: Runs) -> None:
        self.size, self.chosen, self.best = size, self.epochs, runs.solution(size)

    def snapshot(self, runs: Runs) -> Snapshot:
        histories = {"objectives": np.array(self.objectives), "errors": np.array(self.errors)}
        best = dict(zip(("best", "best_intercept"), (as_numpy(part) for part in self.best), strict=True))
        return {"size": self.size, "chosen": self.chosen}, runs.state.arrays() | histories | best

    @classmethod
    def of(cls, snapshot: Snapshot, runs: Runs, device: torch.device) -> _Progress:
        facts, arrays = snapshot
        runs.state = Models.of(arrays, device)
        best = torch.from_numpy(arrays["best"].copy()), torch.from_numpy(arrays["best_intercept"].copy())
        return cls(list(arrays["objectives"]), list(arrays["errors"]), best, facts["size"], facts["chosen"])


def _sizes(problem: Risk, space: Space, step: Any, decay: Any, batch: int) -> tuple[Array, Array]:
    """Step and decay of each run."""
    decays = np.atleast_1d(np.asarray(decay, dtype=np.float64))
    if not np.isfinite(decays).all() or (decays < 0).any():
        raise ValueError(f"decay must be a finite number, zero or more, or several, got {decay!r}")
    if step is None:
        share = np.where(decays > 0, 0.25, np.sqrt(batch / max(batch, len(problem.Y))))
        steps = np.minimum(share / (space.peak or 1.0), 0.25 / max(problem.penalty, 1e-300))
    else:
        steps = np.atleast_1d(np.asarray(step, dtype=np.float64))
        if steps.size == 0 or not np.isfinite(steps).all() or (steps <= 0).any():
            raise ValueError(f"step must be a positive number, several, or None, got {step!r}")
        if (4 * steps * problem.penalty > 1).any():
            raise ValueError(f"step must be at most 1/(4·penalty) = {0.25 / problem.penalty:.3g}, got {step!r}")
    try:
        steps, decays = np.broadcast_arrays(steps, decays)
    except ValueError:
        raise ValueError(f"step and decay must be one or equally many, got {step!r} and {decay!r}") from None
    if steps.ndim != 1:
        raise ValueError(f"step and decay must have one dimension at most, got {step!r} and {decay!r}")
    return steps.copy(), decays.copy()


def _checked(start: Start, problem: Risk) -> tuple[Tensor, Tensor]:
    beta, b = start if isinstance(start, tuple) else (start, torch.zeros(problem.Y.shape[1]))
    problem.check_start(beta)
    like = {"dtype": torch.float64, "device": problem.K.device}
    return beta.detach().to(**like), b.detach().to(**like)  # type: ignore[call-overload]
