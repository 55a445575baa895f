"""A bar on the terminal or in a notebook for what takes a while, and lines in the log where there is neither."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

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
