"""Memory of a process that did nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_fresh_process(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a call made in a Python process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *args, **kwargs).result()


def peak_beyond(call: Callable[[], R]) -> tuple[R, int]:
    """What a call returns, and by how many bytes the process grew at its largest moment.

    On Linux this is VmHWM, reset before the call, less VmRSS. It is not ru_maxrss, which a process inherits from
    the one that started it. Elsewhere ru_maxrss is what there is.
    """
    gc.collect()
    _forget_peak()
    before = _status("VmRSS")
    result = call()
    return result, _status("VmHWM") - before


def peak() -> int:
    """The most bytes that this process ever held in memory, all included."""
    return _status("VmHWM")


def _forget_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass  # then an earlier peak counts as ours: too much, never too little


def _status(field: str) -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
