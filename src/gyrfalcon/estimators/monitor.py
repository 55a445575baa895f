"""Following a solve: a bar on the terminal, the validation error, an early end, an interrupt that loses nothing."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from gyrfalcon import progress
from gyrfalcon.progress import Bar, TimeLeft
from gyrfalcon.solvers import EarlyStopping, Snapshot, Solver, Step
from gyrfalcon.solvers.stopping import Watch

from .deadline import Deadline
from .targets import Coefficients

Fit = TypeVar("Fit", bound=Callable[..., Any])


def shows_progress(fit: Fit) -> Fit:
    """One bar follows the whole fit, and its stages announce themselves there, unless the estimator is not verbose."""

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Bar("reading", verbose=bool(self.verbose)):
            return fit(self, *args, **kwargs)

    return cast(Fit, wrapped)


class Monitor:
    """What a solver calls after each iteration.

    Parameters
    ----------
    solver : Solver
        For the most iterations there can be and the residual at which it is expected to end, from which the time left
        is estimated.
    validate : callable ((coefficients, intercept)) -> float, optional
        The error on validation data.
    stopping : EarlyStopping, optional
        When that error ends the solve.
    notify : callable (solution) -> bool, optional
        Told of each iteration; True stops.
    callback : callable (step) -> bool or None, optional
        A function of the user's, told of each iteration; True stops.
    deadline : Deadline, optional
        After which no iteration begins.
    """

    def __init__(
        self,
        solver: Solver[Any],
        *,
        validate: Callable[[Coefficients], float] | None = None,
        stopping: EarlyStopping | None = None,
        notify: Callable[[Callable[[], Coefficients]], bool] | None = None,
        callback: Callable[[Step], Any] | None = None,
        deadline: Deadline | None = None,
    ):
        self.total = int(getattr(solver, "max_iterations", 1))
        tolerance = float(getattr(solver, "tolerance", 0.0))
        self.residual = tolerance if solver.traits.losses == "smooth" else max(10 * tolerance, 1e-12)
        self.validate, self.notify, self.callback = validate, notify, callback
        self.deadline = deadline
        self._watch = None if stopping is None else Watch(stopping)
        self.errors: list[float] = []
        self.best: Coefficients | None = None
        self.latest: Step | None = None
        self.stopped = ""
        self._bar = progress.stage("solving")
        self._left = TimeLeft(self.residual, self.total)

    def __call__(self, step: Step) -> bool:
        self.latest = step
        if self.validate is not None:
            self._judge(step.solution())
        self._draw(step)
        if self.notify is not None and self.notify(step.solution):
            self.stopped = "a callback asked for it"
        if self.callback is not None and self.callback(step) is True:
            self.stopped = "a callback asked for it"
        if self.deadline is not None and self.deadline.last_call:
            self.stopped = self.stopped or "the time budget is spent"
        return bool(self.stopped)

    def snapshot(self) -> Snapshot:
        """What early stopping goes by: the errors so far and the best coefficients."""
        best = {} if self.best is None else dict(zip(("coefficients", "intercept"), self.best, strict=True))
        return {"errors": list(self.errors)}, {name: tensor.cpu().numpy() for name, tensor in best.items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from what `snapshot` gave."""
        facts, arrays = snapshot
        self.errors = list(facts["errors"])
        for error in self.errors:
            if self._watch is not None:
                self._watch.see(error)
        if arrays:
            self.best = torch.from_numpy(arrays["coefficients"]), torch.from_numpy(arrays["intercept"])

    def _judge(self, current: Coefficients) -> None:
        assert self.validate is not None
        error = self.validate(current)
        if not self.errors or error < min(self.errors):
            self.best = current
        self.errors.append(error)
        if self._watch is not None:
            self._watch.see(error)
            if self._watch.tired:
                self.stopped = f"the validation error has not fallen for {self._watch.waited} iterations"

    def _draw(self, step: Step) -> None:
        left, words = self._left.see(step.iteration, step.residual, time.monotonic())
        shown = [f"iteration {step.iteration}", f"objective {step.objective:.6g}"]
        shown += [f"validation error {self.errors[-1]:.4g}"] if self.errors else []
        shown += [words] if words else []
        self._bar.show(step.iteration + left, " · ".join(shown), step.iteration)
