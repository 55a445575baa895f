"""A bar on the terminal for what takes a while."""

from __future__ import annotations

import sys
import time
from typing import Any

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
