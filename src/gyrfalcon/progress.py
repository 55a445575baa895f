"""A bar on the terminal or in a notebook for what takes a while, and lines in the log where there is neither."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from contextvars import ContextVar
from typing import Any

import numpy as np

FEWEST_STEPS = 5  # that an estimate of the time left needs
PATIENCE_TO_SHOW = 2.0  # seconds before a bar appears
SECONDS_BETWEEN_LINES = 10.0  # in the log
SECONDS_BETWEEN_LOOKS = 0.25  # at the clock, for stages without steps

logger = logging.getLogger("gyrfalcon")


class Bar:
    """A bar, once what it follows has taken two seconds: on the terminal, or in a notebook.

    Where there is neither, the logger "gyrfalcon" gets a line then and every ten seconds, at the level INFO. What is
    followed may have stages, which `stage` announces; each that takes two seconds gets a line. Within a `with`, a
    thread looks at the clock, so that stages without steps are shown too.
    """

    def __init__(self, name: str, *, verbose: bool, total: int = 0):
        self._verbose, self._began = verbose, time.monotonic()
        self._notebook = "ipykernel" in sys.modules
        self._shows = verbose and (self._notebook or sys.stderr.isatty())
        self._lock = threading.Lock()
        self._logged = -math.inf
        self._bar: Any = None
        self._task: Any = None
        self._outer: Bar | None = None
        self._hidden = False
        self._begin(name, total)

    def _begin(self, name: str, total: int) -> None:
        self._name, self._total, self._count, self._text = name, total, 0, ""
        self._since, self._announced = time.monotonic(), False

    def __enter__(self) -> Bar:
        self._outer = _innermost.get()
        _innermost.set(self)
        if self._shows or (self._verbose and logger.isEnabledFor(logging.INFO)):
            _clock.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        _innermost.set(self._outer)
        if self._outer is not None:
            self._outer.hide(False)

    def close(self) -> None:
        _clock.remove(self)
        self.hide()

    def hide(self, hidden: bool = True) -> None:
        """Show nothing while another bar does."""
        with self._lock:
            self._hidden = hidden
            if hidden and self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _hide_outer(self) -> None:
        outer = self._outer
        while outer is not None:
            outer.hide()
            outer = outer._outer

    def stage(self, name: str, total: int = 0) -> Bar:
        """Announce what comes next, with the number of its steps if that is known; returns the bar."""
        with self._lock:
            self._begin(name, total)
            if self._bar is not None:
                self._bar.remove_task(self._task)
                self._task = None
            self._tell()
        return self

    def step(self, step: Any = None) -> bool:
        """Move on by one; returns False, so that it can serve as a callback of tuning."""
        count = self._count + 1
        self.show(max(self._total, count), "" if step is None else f"objective {step.value:.6g}", count)
        return False

    def show(self, total: int, text: str, completed: int) -> None:
        with self._lock:
            self._total, self._text, self._count = total, text, completed
            self._tell()

    def look(self) -> None:
        """Show how things stand, if it is time to."""
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if not self._verbose or self._hidden or (self._bar is None and now - self._began < PATIENCE_TO_SHOW):
            return
        if self._shows:
            self._draw()
        else:
            self._log(now)

    def _log(self, now: float) -> None:
        new = not self._announced and now - self._since >= PATIENCE_TO_SHOW
        if new or now - self._logged >= SECONDS_BETWEEN_LINES:
            self._logged, self._announced = now, True
            self._hide_outer()
            steps = f"{self._count} of {self._total}, " if self._total else ""
            words = f", {self._text}" if self._text else ""
            logger.info("%s: %s%.0f s%s", self._name, steps, now - self._began, words)

    def _draw(self) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._hide_outer()
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"))
            self._bar = Progress(
                *columns, TimeElapsedColumn(), console=Console(stderr=not self._notebook), transient=True
            )
            self._task = None
            self._bar.start()
        total = self._total or None  # a bar without an end moves to and fro
        if self._task is None:
            self._task = self._bar.add_task(self._name, total=total, shown="")
        self._bar.update(self._task, completed=self._count, total=total, shown=self._text, refresh=True)


class _Clock:
    """A thread that lets all open bars look at the time, and ends when it finds none.

    Fits of milliseconds share one, since starting a thread would take them too long.
    """

    def __init__(self) -> None:
        self._bars: list[Bar] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, bar: Bar) -> None:
        with self._lock:
            self._bars.append(bar)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gyrfalcon progress", daemon=True)
                self._thread.start()

    def remove(self, bar: Bar) -> None:
        with self._lock:
            self._bars = [other for other in self._bars if other is not bar]

    def _run(self) -> None:
        while True:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            with self._lock:
                bars = self._bars
                if not bars:
                    self._thread = None
                    return
            for bar in bars:
                bar.look()


_clock = _Clock()
_innermost: ContextVar[Bar | None] = ContextVar("innermost bar", default=None)


def _after_fork() -> None:
    """Leave the bars of the parent behind, and the locks that its threads may have held."""
    global _clock
    _clock = _Clock()
    _innermost.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def stage(name: str, total: int = 0) -> Bar:
    """Announce a stage of what is being followed, in its bar; returns the bar, which shows nothing if there is none."""
    bar = _innermost.get()
    return Bar(name, verbose=False) if bar is None else bar.stage(name, total)


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
