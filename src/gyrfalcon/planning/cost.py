"""A cost model of Falkon: the seconds and bytes of each part of a fit, from measured rates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from gyrfalcon.data.read_ahead import DEPTH
from gyrfalcon.data.source import CHUNK_BYTES, CHUNK_ROWS
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix.native_engine import ROWS_PER_BLOCK
from gyrfalcon.matrix.plan import worth_caching
from gyrfalcon.solvers.falkon import sample_rows

from .calibration import PENALTY, Conditions, Rates
from .law import ZERO, Seconds

NETWORK_BYTES = 1.25e9  # bytes per second that a network of ten gigabits sends
NETWORK_DELAY = 1e-3  # seconds per message, including the scheduler of the cluster
CHUNKS_ALIVE = DEPTH + 2  # chunks in memory: those that wait, one that is read and one that is processed
ROWS_SEEN = 4  # rows of a file that are read for each center that is chosen
READER_BYTES = 32 << 20  # bytes that Arrow needs for decoding, as measured by `python -m benchmarks plan`
SAMPLE_MATRICES = 6  # float64 matrices of shape (m, m) while the moments of a sample of rows are computed
VECTORS = 12  # float64 matrices of shape (m, t) in conjugate gradients


@dataclass(frozen=True)
class Setting:
    """The size of a fit, where its rows are, and how many iterations it takes, unless it is `tuned`."""

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
    tuned: bool = False

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def share(self) -> int:
        """The number of rows of a worker."""
        return math.ceil(self.n / self.workers)

    @property
    def streamed(self) -> bool:
        return self.storage != "memory"

    @property
    def kept(self) -> bool:
        """Whether a KernelMatrix would keep K in memory. It never does for rows in files or on other machines."""
        if self.streamed or self.workers > 1:
            return False
        return worth_caching((self.n, self.m), self.d, getattr(torch, self.dtype), self.memory_budget, self.t)[0]

    @property
    def sampled(self) -> int:
        """How many rows per center Falkon samples for its preconditioner; 0 if it samples none."""
        return (sample_rows(self.n, self.m, self.d, getattr(torch, self.dtype), PENALTY) or 0) // self.m

    @property
    def chunk_rows(self) -> int:
        fitting = max(1, min(CHUNK_BYTES, self.memory_budget // 8) // (self.d * self.itemsize))
        return min(CHUNK_ROWS, 1 << (fitting.bit_length() - 1))

    def conditions(self) -> Conditions:
        return Conditions(
            d=self.d,
            t=self.t,
            dtype=self.dtype,
            kernel=self.kernel,
            devices=self.devices,
            storage=self.storage,
            kept=self.kept,
            sampled=self.sampled,
            threads=torch.get_num_threads(),
        )


def seconds(setting: Setting, rates: Rates) -> dict[str, Seconds]:
    """Seconds by part of the fit."""
    n, m, iterations = setting.share, setting.m, setting.iterations
    passes = math.ceil(n / setting.chunk_rows) if setting.streamed else 1  # what a pass costs to begin, chunks cost too
    right_side = _while_reading(setting, rates, rates.right_side(passes, n, n * m))
    product = _while_reading(setting, rates, rates.product(passes, n, n * m))
    filling = rates.filling(n * m) if iterations else ZERO  # the pass that fills K makes its product as well
    passing = product.times(max(0, iterations - 1) if setting.kept else iterations).plus(filling)
    vectors = rates.precondition(1, m**2).plus(_network(setting, setting.t)).times(iterations)
    return {
        "centers": _choosing(setting, rates),
        # A sample of rows is gathered in one pass.
        "factor": rates.factor(m**2, m**3).plus(rates.reading(n * setting.d if setting.sampled else 0)),
        "right_side": right_side.plus(_network(setting, setting.t)),
        "iterations": passing.plus(vectors),
    }


def _choosing(setting: Setting, rates: Rates) -> Seconds:
    n, m = setting.share, setting.m
    sending = _network(setting, setting.d)
    if not setting.streamed:
        return rates.centers(1, n, m).plus(sending)
    # Targets are read once, and then some rows to choose from are gathered in one pass.
    reading = rates.reading(n * (setting.t + setting.d))
    return rates.centers(1, ROWS_SEEN * m, m).plus(reading).plus(sending)


def _while_reading(setting: Setting, rates: Rates, computing: Seconds) -> Seconds:
    """The time of a pass: that of reading, or that of the computation and decoding on all cores if it is longer."""
    numbers = setting.share * setting.d
    work = rates.reading_work(numbers).times(1 / torch.get_num_threads())
    return computing.plus(work).at_least(rates.reading(numbers))


def _network(setting: Setting, columns: int) -> Seconds:
    """The time to send an m × columns matrix to all workers and to sum one in float64 over them, along trees."""
    if setting.workers == 1:
        return ZERO
    message = NETWORK_DELAY + 8 * setting.m * columns / NETWORK_BYTES
    took = 2 * math.ceil(math.log2(setting.workers)) * message
    return Seconds(took, took / 2, took * 2)  # no network was measured


def memory(setting: Setting) -> dict[str, int]:
    """Bytes by part, without the interpreter and its libraries, in the leading process, which has some rows."""
    n, d, m, t, itemsize = setting.n, setting.d, setting.m, setting.t, setting.itemsize
    if setting.streamed:
        rows = CHUNKS_ALIVE * min(setting.share, setting.chunk_rows) * d * itemsize
        rows += READER_BYTES if setting.storage in ("parquet", "feather") else 0
    else:
        rows = setting.share * d * itemsize
    sampled = setting.streamed or setting.workers > 1  # then centers are chosen among some rows, not all
    return {
        "rows": rows,
        "targets": n * t * itemsize,
        "choosing": 2 * ROWS_SEEN * m * d * itemsize if sampled else 32 * n,  # else indices and weights of all rows
        "centers": m * d * (itemsize + 8),
        "factor": 8 * m**2,
        "sampling": SAMPLE_MATRICES * 8 * m**2 if setting.sampled else 0,
        "right_side": n * (t + 1) * itemsize,  # the targets without their mean, and a column of ones for an intercept
        "kept": n * m * itemsize if setting.kept else 0,
        "products": torch.get_num_threads() * ROWS_PER_BLOCK * m * itemsize + m * d * itemsize,
        "vectors": VECTORS * 8 * m * t,
    }


def peak(parts: dict[str, int]) -> int:
    """Peak memory. Centers, factors, the right-hand side and a K that is kept are made in this order."""
    held = parts["rows"] + parts["targets"]
    solving = parts["centers"] + parts["factor"] + parts["products"] + parts["vectors"]
    return held + max(parts["choosing"], solving + max(parts["sampling"], parts["right_side"], parts["kept"]))
