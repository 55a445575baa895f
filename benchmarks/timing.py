"""Times that can be compared although other work runs on the machine.

Contenders take turns (A B C A B C ...), so that all meet the same clock speeds, and the best turn of each counts. Each
turn also notes how much CPU time other processes took meanwhile: a best turn that was disturbed is reported as such.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

REST = 0.03  # seconds; OpenMP and OpenBLAS threads spin about that long after a call, on cores that the next one needs
TURN = 0.05  # seconds; in shorter turns the disturbance by others could not be seen
_DISTURBED = 0.1  # CPU seconds of others for each second of ours


@dataclass(frozen=True)
class Contender:
    name: str
    sample: Callable[[], float]  # nanoseconds per unit of work, measured now
    rest: float = REST  # before each turn


def timed(name: str, call: Callable[[], object], work: float, rest: float = REST, least: float = TURN) -> Contender:
    """A contender whose call does `work` units; a turn is as many calls as fill `least` seconds, and their mean."""

    def sample() -> float:
        start, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - start < least:
            call()
            calls += 1
        return (time.perf_counter() - start) * 1e9 / (work * calls)

    return Contender(name, sample, rest)


@dataclass(frozen=True)
class Best:
    nanoseconds: float
    disturbed: bool


@dataclass(frozen=True)
class Race:
    best: dict[str, Best]
    rounds: int

    def __getitem__(self, name: str) -> float:
        return self.best[name].nanoseconds

    def get(self, name: str) -> float | None:
        return self[name] if name in self.best else None

    @property
    def disturbed(self) -> list[str]:
        """Who never had the machine for itself: their times may be too long."""
        return [name for name, best in self.best.items() if best.disturbed]

    def verdict(self, met: bool) -> str:
        return "not judged: other work disturbed it" if self.disturbed else "met" if met else "MISSED"


def race(contenders: Sequence[Contender], rounds: int, patience: float) -> Race:
    """The best turn of each contender.

    Goes on after `rounds` rounds while someone's best turn was disturbed. After the first round it stops, wherever it
    is, once `patience` seconds are spent.
    """
    best: dict[str, Best] = {}
    end, done = time.perf_counter() + patience, 0
    while done < rounds or any(turn.disturbed for turn in best.values()):
        for contender in contenders:
            if done and time.perf_counter() > end:
                return Race(best, done)
            time.sleep(contender.rest)
            others = Others()
            nanoseconds = contender.sample()
            if contender.name not in best or nanoseconds < best[contender.name].nanoseconds:
                best[contender.name] = Best(nanoseconds, others.disturbed())
        done += 1
    return Race(best, done)


class Others:
    """CPU time that other processes, or the hypervisor, took since this was made; nothing is known outside Linux."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def disturbed(self) -> bool:
        return self.taken() > _DISTURBED * (time.perf_counter() - self._start) + 0.015  # the counters advance by 10 ms

    def taken(self) -> float:
        """Seconds of CPU time."""
        return (_busy_seconds() - self._busy) - (_own_seconds() - self._own)


def _own_seconds() -> float:
    return time.process_time()


def _busy_seconds() -> float:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return _own_seconds()
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
