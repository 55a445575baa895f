"""A bar on the terminal or in a notebook for what takes a while, and lines in the log where there is neither."""

from __future__ import annotations

import logging
import math
import sys
import time
from typing import Any

import numpy as np

FEWEST_STEPS = 5  # that an estimate of the time left needs
PATIENCE_TO_SHOW = 2.0  # seconds before a bar appears
SECONDS_BETWEEN_LINES = 10.0  # in the log

logger = logging.getLogger("gyrfalcon")


class Bar:
    """A bar, once what it follows has taken two seconds: on the terminal, or in a notebook.

    Where there is neither, the logger "gyrfalcon" gets a line then and every ten seconds, at the level INFO.
    """

    def __init__(self, name: str, *, verbose: bool, total: int = 0):
        self._name, self._verbose, self._began = name, verbose, time.monotonic()
        self._notebook = "ipykernel" in sys.modules
        self._shows = verbose and (self._notebook or sys.stderr.isatty())
        self._logged: float | None = None
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
        if not self._verbose or (self._bar is None and time.monotonic() - self._began < PATIENCE_TO_SHOW):
            return
        if not self._shows:
            self._log(total, text, completed)
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"))
            self._bar = Progress(
                *columns, TimeElapsedColumn(), console=Console(stderr=not self._notebook), transient=True
            )
            self._task = self._bar.add_task(self._name, total=total, shown="")
            self._bar.start()
        self._bar.update(self._task, completed=completed, total=total, shown=text, refresh=True)

    def _log(self, total: int, text: str, completed: int) -> None:
        now = time.monotonic()
        if self._logged is None or now - self._logged >= SECONDS_BETWEEN_LINES:
            self._logged = now
            logger.info("%s: %d of %d, %.0f s%s", self._name, completed, total, now - self._began, text and f", {text}")


class TimeLeft:
    """How long an iteration will go on that ends when a residual has fallen to a goal, or after so many steps.

    The rates are those of the later half of the steps: seconds a step, and the slope of a line through the logarithms
    of the residuals. An estimate is averaged with what is left of the one before. While the residual does not fall, the
    number of steps bounds the time.

    Parameters
    ----------
    goal : float
        Zero if only the number of steps ends it.
    most : int
        The number of the last step.
    """

    def __init__(self, goal: float, most: int):
        self._goal, self._most = goal, most
        self._seen: list[tuple[int, float, float]] = []  # step, time and the logarithm of the residual
        self._estimate: tuple[float, float] | None = None  # seconds left, and when that was

    def see(self, step: int, residual: float, now: float) -> tuple[int, str]:
        """Steps that are left, and the time in words, which is empty as long as there is nothing to tell it by."""
        self._seen.append((step, now, math.log(max(residual, sys.float_info.min))))
        most = max(0, self._most - step)
        if len(self._seen) < FEWEST_STEPS:
            return most, ""
        steps, times, heights = np.array(self._seen[-max(2 * FEWEST_STEPS, len(self._seen) // 2) :]).T
        pace = float((times[-1] - times[0]) / (steps[-1] - steps[0]))
        middle = steps.mean()
        slope = float(((steps - middle) * heights).sum() / np.square(steps - middle).sum())
        if self._goal <= 0 or not slope < 0:
            self._estimate = None
            return most, f"at most {duration(max(1.0, most * pace))} left"
        above = float(heights.mean()) + slope * (step - float(middle)) - math.log(self._goal)
        left = min(most, math.ceil(max(0.0, above) / -slope))
        seconds = left * pace
        if self._estimate is not None:
            seconds = (seconds + max(0.0, self._estimate[0] - (now - self._estimate[1]))) / 2
        self._estimate = seconds, now
        return left, f"about {duration(max(1.0, seconds))} left"


def duration(seconds: float) -> str:
    """Format a time with a suitable unit and two digits.

    >>> duration(0.25), duration(48.2), duration(250.0)
    ('250 ms', '48 s', '4.2 min')
    """
    for unit, size, most in (("ms", 1e-3, 1.0), ("s", 1.0, 100.0), ("min", 60.0, 6000.0), ("h", 3600.0, 172800.0)):
        if seconds < most:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds / 86400)} days"


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"
