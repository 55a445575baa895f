"""Following a solve: a bar on the terminal, the validation error, an early end, an interrupt that loses nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import TracebackType

import torch
from torch import Tensor

from gyrfalcon.progress import Bar
from gyrfalcon.solvers import Snapshot, Step

Coefficients = tuple[Tensor, Tensor]


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
