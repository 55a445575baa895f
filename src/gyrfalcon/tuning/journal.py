"""The evaluations of an objective, written down, so that a search that was cut short need not pay for them twice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.solvers import Keep, Snapshot

from .optimizers import FAILURES, Point

Array = np.ndarray[Any, Any]


class Entry(NamedTuple):
    """Where the objective was evaluated, as a digest, and what came out; no gradient where it has no value."""

    at: str
    value: float
    details: Any
    gradient: Array | None


class Journal:
    """Answers a search that begins again from the evaluations of the one before, until they are used up.

    An optimizer is a function of the answers it gets, so it comes to the same point in the same state, bit for bit,
    whatever that state is: SciPy's L-BFGS-B has one that nobody else can write down. Only the answers are paid for.

    Parameters
    ----------
    kept : Snapshot, optional
        Of the journal of an earlier search.
    keep : callable, optional
        Called after each new evaluation with a function that takes a snapshot.
    """

    def __init__(self, kept: Snapshot | None = None, keep: Keep | None = None):
        self._entries: list[Entry] = []
        self._told = 0
        self._began, self._keep = time.monotonic(), keep
        self.seconds = 0.0  # that earlier searches took
        if kept is not None:
            facts, arrays = kept
            self.seconds = float(facts["seconds"])
            for place, (at, value, details) in enumerate(facts["entries"]):
                self._entries.append(Entry(at, value, details, arrays.get(f"gradient.{place}")))

    def recorded(self, function: Callable[[Array], Point]) -> Callable[[Array], Point]:
        """The same function of θ, which remembers."""

        def answer(theta: Array) -> Point:
            at = hashlib.sha256(theta.tobytes()).hexdigest()
            if self._told < len(self._entries) and self._entries[self._told].at != at:
                del self._entries[self._told :]  # another machine's rounding led elsewhere
            if self._told < len(self._entries):
                found = self._entries[self._told]
                self._told += 1
                return _point(found)
            try:
                value, gradient, details = function(theta)
                found = Entry(at, value, details, gradient)
            except FAILURES:
                found = Entry(at, float("nan"), None, None)
            self._entries.append(found)
            self._told = len(self._entries)
            if self._keep is not None:
                self._keep(self.snapshot)
            return _point(found)

        return answer

    def snapshot(self) -> Snapshot:
        """What `kept` takes."""
        gradients = {f"gradient.{k}": e.gradient for k, e in enumerate(self._entries) if e.gradient is not None}
        entries = [(entry.at, entry.value, entry.details) for entry in self._entries]
        return {"seconds": self.seconds + time.monotonic() - self._began, "entries": entries}, gradients


def _point(entry: Entry) -> Point:
    if entry.gradient is None:
        raise FloatingPointError("the objective has no value here")
    return Point(entry.value, entry.gradient, entry.details)
