"""A solve that can be cut short: where the solver stands and what its monitor has seen by then, in one file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.solvers import Snapshot

from .monitor import Monitor

_MONITOR = "monitor."


def resume_solve(checkpoint: Checkpoint | None, seconds: dict[str, float], monitor: Monitor) -> dict[str, Any]:
    """What a solver takes as `resume` and `keep`; the monitor and the seconds by part are put back."""
    if checkpoint is None:
        return {}
    found = checkpoint.load("solver")
    if found is not None:
        found = _put_back(*found, seconds, monitor)

    def keep(take: Callable[[], Snapshot]) -> None:
        checkpoint.keep("solver", lambda: _together(take(), seconds, monitor))

    return {"resume": found, "keep": keep}


def _together(snapshot: Snapshot, seconds: dict[str, float], monitor: Monitor) -> Snapshot:
    facts, arrays = snapshot
    seen, best = monitor.snapshot()
    facts = {"solver": facts, "monitor": seen, "seconds": dict(seconds)}
    return facts, arrays | {_MONITOR + name: array for name, array in best.items()}


def _put_back(facts: dict[str, Any], arrays: dict[str, Any], seconds: dict[str, float], monitor: Monitor) -> Snapshot:
    best = {name.removeprefix(_MONITOR): array for name, array in arrays.items() if name.startswith(_MONITOR)}
    monitor.restore((facts["monitor"], best))
    seconds.update(facts["seconds"])
    return facts["solver"], {name: array for name, array in arrays.items() if not name.startswith(_MONITOR)}
