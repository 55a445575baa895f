"""The prediction, as numbers and as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import torch

from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix.plan import readable
from gyrfalcon.progress import duration

from . import cost, tuned
from .calibration import calibrate
from .checks import as_counts
from .cost import Setting
from .law import ZERO, Seconds
from .load import busy_words, load_of_machine, slowdown
from .table import PlanTable
from .tuned import usual_centers

ROWS = (1e5, 1e6, 1e7, 1e8, 1e9)
WORKERS = (1, 2, 8, 64)


@dataclass(frozen=True)
class FitPlan:
    """The time and the memory that a fit is expected to take; printed, it reads as a few lines. Made by `plan`.

    Attributes
    ----------
    n, d, m, t, dtype, kernel, iterations, devices, workers, storage, memory_budget
        What was asked.
    tuned : bool
        Whether the number of centers was left out, so that the plan is one of a fit with default arguments; m is then
        the most that it takes.
    seconds : dict of str to Seconds
        (point, low, high) of "centers", "factor", "right_side", "iterations" and "total"; of a fit with default
        arguments of "tuning", "solve" and "total".
    memory : dict of str to int
        Bytes by part in one process, the one that leads if there are several, beyond the interpreter
        and its libraries, and their "peak": parts that are not needed at the same time do not add up.
    assumed : tuple of str
        What has to hold for this to come true.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> fit = gf.plan(1_000_000, 9, 1000, iterations=10)
    >>> low, high = fit.interval
    >>> low <= fit.total <= high
    True
    >>> fit.memory["rows"], fit.memory["factor"]
    (36000000, 8000000)
    >>> fit.table(rows=(1e6, 1e9), workers=(1, 8)).shape
    (2, 2)
    """

    n: int
    d: int
    m: int
    t: int
    dtype: str
    kernel: Kernel
    iterations: int
    devices: tuple[str, ...] | None
    workers: int
    storage: str
    memory_budget: int
    seconds: Mapping[str, Seconds]
    memory: Mapping[str, int]
    assumed: tuple[str, ...]
    tuned: bool = False

    @property
    def total(self) -> float:
        """The predicted time in seconds."""
        return self.seconds["total"].point

    @property
    def interval(self) -> tuple[float, float]:
        """The interval in seconds in which the total is expected."""
        return self.seconds["total"].low, self.seconds["total"].high

    @property
    def peak_bytes(self) -> int:
        return self.memory["peak"]

    def table(self, rows: Sequence[float] = ROWS, workers: Sequence[int] | None = None) -> PlanTable:
        """The same fit with other numbers of rows, on other numbers of machines; one that tunes is on one machine.

        Parameters
        ----------
        rows : sequence of int
        workers : sequence of int, optional
            1, 2, 8 and 64 if they are not given.

        >>> import gyrfalcon as gf
        >>> table = gf.plan(1_000_000, 9, 1000).table(rows=(1e8, 1e9), workers=(1, 8))
        >>> table[1, 0].n, table[1, 0].workers, table[1, 1].total < table[1, 0].total
        (1000000000, 1, True)
        """
        if self.tuned and workers is not None:
            raise ValueError(f"workers={workers!r} is for fits with a number of centers: plan with m, or leave it out")
        usual = (1,) if self.tuned else WORKERS
        counts = as_counts(usual if workers is None else workers, "workers")
        return PlanTable(
            tuple(tuple(self._at(n, count) for count in counts) for n in as_counts(rows, "rows")),
            self._question(rows=False),
        )

    def _at(self, n: int, workers: int) -> FitPlan:
        asked = {field.name: getattr(self, field.name) for field in dataclasses.fields(Setting)}
        changed = {"n": n, "workers": workers}
        if self.tuned:
            changed["m"] = usual_centers(n, self.t, self.dtype, self.memory_budget)
        return predict(Setting(**asked | changed))

    def __str__(self) -> str:
        low, high = self.interval
        parts = ", ".join(
            f"{name.replace('_', ' ')} {duration(part.point)}" for name, part in self.seconds.items() if name != "total"
        )
        largest = sorted((item for item in self.memory.items() if item[0] != "peak"), key=lambda item: -item[1])[:3]
        shares = ", ".join(f"{name.replace('_', ' ')} {readable(size)}" for name, size in largest)
        return "\n".join(
            (
                self._question(),
                f"time:    {duration(self.total)}, between {duration(low)} and {duration(high)} ({parts})",
                f"memory:  {readable(self.peak_bytes)} at most (largest parts: {shares})",
                f"assumed: {'; '.join(self.assumed)}",
            )
        )

    def _repr_html_(self) -> str:
        head, *lines = str(self).split("\n")
        cells = (line.split(":", 1) for line in lines)
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text.strip())}</td></tr>" for name, text in cells)
        return f"<table><caption>{escape(head)}</caption>{body}</table>"

    def _question(self, rows: bool = True) -> str:
        n = f"{self.n:,} × " if rows else ""
        where = "in memory" if self.storage == "memory" else f"read from {self.storage}"
        outputs = "1 output" if self.t == 1 else f"{self.t:,} outputs"
        machines = f" on {self.workers} machines" if rows and self.workers > 1 else ""
        if self.tuned:
            most = f", up to {self.m:,} centers" if rows else ""
            return f"default fit: {n}{self.d} {self.dtype} features {where}{most}, {outputs}"
        return (
            f"falkon: {n}{self.d} {self.dtype} features {where}, {self.m:,} centers, {outputs}, "
            f"{self.iterations} iterations{machines}"
        )


def predict(setting: Setting) -> FitPlan:
    """Calibrate, if that has not been done for such fits, and apply the model."""
    memory = cost.memory(setting)
    if setting.tuned:
        seconds = tuned.seconds(setting.n, setting.d, setting.t, setting.dtype, setting.memory_budget)
        assumed = _assumed_of_tuning()
    else:
        rates = calibrate(setting.conditions())
        seconds = cost.seconds(setting, rates)
        assumed = _assumed(setting, rates.reading.best[0], rates.seconds)
    load = load_of_machine()
    seconds = {name: part.at_most_times(slowdown(load)) for name, part in seconds.items()}
    total = ZERO
    for part in seconds.values():
        total = total.plus(part)
    asked = {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
    return FitPlan(
        **asked,
        seconds=seconds | {"total": total},
        memory=memory | {"peak": cost.peak(memory)},
        assumed=(*assumed, *_busy(load)),
    )


def _busy(load: float) -> list[str]:
    if slowdown(load) == 1:
        return []
    return [f"the machine is busy, with {busy_words(load)}: the longer time is for as long as that lasts"]


def _assumed_of_tuning() -> list[str]:
    threads = torch.get_num_threads()
    return [
        f"rates of a miniature fit ({threads} thread{'s' if threads > 1 else ''})",
        "default arguments, which tune; how long that and the solve take depends on what there is to learn",
        "memory is that of the solve",
    ]


def _assumed(setting: Setting, reading: float, calibration: float) -> list[str]:
    threads = torch.get_num_threads()
    on_cpu = f"{threads} thread{'s' if threads > 1 else ''}"
    where = "shared by " + ", ".join(setting.devices) if setting.devices else on_cpu
    words = [
        f"rates of a calibration of {calibration:.1f} s ({where})",
        f"uniform centers, every iteration made and in {setting.dtype}",
    ]
    if setting.kept:
        words.append("K kept in memory from the second product on")
    if setting.streamed:
        speed = readable(setting.itemsize / reading)
        words.append(f"files in the system's cache or on a disk that gives {speed} of numbers a second")
    if setting.workers > 1:
        words.append(
            f"{setting.workers} machines like this one, {readable(cost.NETWORK_BYTES)}/s and "
            f"{cost.NETWORK_DELAY * 1e3:g} ms a message between them; memory is that of one, which has all targets"
        )
    return words
