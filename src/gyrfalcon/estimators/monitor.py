"""Following a solve: a bar on the terminal, the validation error, an early end, an interrupt that loses nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from gyrfalcon.solvers import Snapshot, Step

Coefficients = tuple[Tensor, Tensor]
PATIENCE_TO_SHOW = 2.0  # seconds before a bar appears


class Bar:
    """A bar on the terminal, once what it follows has taken two seconds; none if there is no terminal."""

    def __init__(self, name: str, *, verbose: bool, total: int = 0):
        self._name, self._shows, self._began = name, verbose and sys.stderr.isatty(), time.monotonic()
        self._total, self._count = total, 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, step: Any = None) -> bool:
        """Move on by one; returns False, so that it can serve as a callback of tuning."""
        self._count += 1
        self.show(max(self._total, self._count), "" if step is None else f"objective {step.value:.6g}", self._count)
        return False

    def show(self, total: int, text: str, completed: int) -> None:
        if not self._shows or (self._bar is None and time.monotonic() - self._began < PATIENCE_TO_SHOW):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._name, total=total, shown="")
            self._bar.start()
        self._bar.update(self._task, completed=completed, total=total, shown=text, refresh=True)


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
        self._bar = Bar("fit", verbose=verbose)
        self._first: tuple[int, float, float] | None = None  # iteration, time and residual

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.close()

    def __call__(self, step: Step) -> bool:
        self.latest = step
        if self.validate is not None:
            self._judge(step.solution())
        self._draw(step)
        if self.notify is not None and self.notify(step.solution):
            self.stopped = "a callback asked for it"
        return bool(self.stopped)

    def snapshot(self) -> Snapshot:
        """What early stopping goes by: the errors so far and the best coefficients."""
        best = {} if self.best is None else dict(zip(("coefficients", "intercept"), self.best, strict=True))
        return {"errors": list(self.errors)}, {name: tensor.cpu().numpy() for name, tensor in best.items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from what `snapshot` gave."""
        facts, arrays = snapshot
        self.errors = list(facts["errors"])
        if arrays:
            self.best = torch.from_numpy(arrays["coefficients"]), torch.from_numpy(arrays["intercept"])

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
            self._first = step.iteration, now, residual
        left = self._iterations_left(step.iteration, residual)
        shown = [f"iteration {step.iteration}", f"objective {step.objective:.6g}"]
        shown += [f"validation error {self.errors[-1]:.4g}"] if self.errors else []
        seen = step.iteration - self._first[0]
        if seen > 0:
            shown.append(f"about {left * (now - self._first[1]) / seen:.0f} s left")
        self._bar.show(step.iteration + left, " · ".join(shown), step.iteration)

    def _iterations_left(self, iteration: int, residual: float) -> int:
        """From the rate at which the residual has fallen so far."""
        most = self.total - iteration
        if self._first is None or self.residual <= 0 or not 0 < residual < self._first[2]:
            return most
        rate = math.log(self._first[2] / residual) / (iteration - self._first[0])
        return max(0, min(most, math.ceil(math.log(max(residual / self.residual, 1)) / rate)))
