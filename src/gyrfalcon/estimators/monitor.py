"""Following a solve: a bar on the terminal, the validation error, an early end, an interrupt that loses nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import Tensor

from gyrfalcon.solvers import Step

Coefficients = tuple[Tensor, Tensor]
PATIENCE_TO_SHOW = 2.0  # seconds before a bar appears


class Monitor:
    """What a solver calls after each iteration.

    Parameters
    ----------
    total : int
        The most iterations there can be.
    residual : float
        At which the solver is expected to end: what the time left is estimated from.
    verbose : bool
        Whether to show a bar, on a terminal, once two seconds have passed.
    validate : callable (coefficients, intercept) -> float, optional
        The error on validation data.
    patience : int, optional
        Iterations without a better validation error after which to stop.
    notify : callable (solution) -> bool, optional
        Told of each iteration; True stops.
    """

    def __init__(
        self,
        *,
        total: int,
        residual: float,
        verbose: bool,
        validate: Callable[[Tensor, Tensor], float] | None = None,
        patience: int | None = None,
        notify: Callable[[Callable[[], Coefficients]], bool] | None = None,
    ):
        self.total, self.residual = total, residual
        self.validate, self.patience, self.notify = validate, patience, notify
        self.errors: list[float] = []
        self.best: Coefficients | None = None
        self.latest: Step | None = None
        self.stopped = ""
        self._show = verbose and sys.stderr.isatty()
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: Step) -> bool:
        self.latest = step
        if self.validate is not None:
            self._judge(step.solution())
        if self._show:
            self._draw(step)
        if self.notify is not None and self.notify(step.solution):
            self.stopped = "a callback asked for it"
        return bool(self.stopped)

    def _judge(self, current: Coefficients) -> None:
        assert self.validate is not None
        error = self.validate(*current)
        if not self.errors or error < min(self.errors):
            self.best = current
        self.errors.append(error)
        waited = len(self.errors) - 1 - self.errors.index(min(self.errors))
        if self.patience is not None and waited >= self.patience:
            self.stopped = f"the validation error has not fallen for {waited} iterations"

    def _draw(self, step: Step) -> None:
        residual, now = step.residual, time.monotonic()
        if self._first is None:
            self._first = now, residual
        if self._bar is None:
            if now - self._began < PATIENCE_TO_SHOW:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("fit", total=self.total, shown="")
            self._bar.start()
        left = self._iterations_left(step.iteration, residual)
        shown = [f"iteration {step.iteration}", f"objective {step.objective:.6g}"]
        shown += [f"validation error {self.errors[-1]:.4g}"] if self.errors else []
        if step.iteration > 1:
            shown.append(f"about {left * (now - self._first[0]) / (step.iteration - 1):.0f} s left")
        self._bar.update(
            self._task, completed=step.iteration, total=step.iteration + left, shown=" · ".join(shown), refresh=True
        )

    def _iterations_left(self, iteration: int, residual: float) -> int:
        """From the rate at which the residual has fallen so far."""
        most = self.total - iteration
        if self._first is None or iteration < 2 or not 0 < residual < self._first[1]:
            return most
        rate = math.log(self._first[1] / residual) / (iteration - 1)
        return max(0, min(most, math.ceil(math.log(max(residual / self.residual, 1)) / rate)))
