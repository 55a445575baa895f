"""Which engine, and whether to keep K: decided from shapes by a small cost model, and explained on request."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from gyrfalcon import costs

PRODUCTS = 20  # with a K that is kept, over which filling it is to pay off


@dataclass(frozen=True)
class Plan:
    """How a KernelMatrix makes its products; printed, it reads as a few sentences.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> plan = gf.KernelMatrix("rbf", np.zeros((10, 2)), engine="torch").plan()
    >>> plan.engine, plan.shape, plan.dtype
    ('torch', (10, 10), 'float64')
    """

    engine: str
    reason: str
    cache: bool
    cache_reason: str
    shape: tuple[int, int]
    dtype: str
    device: str
    block_rows: int
    memory_budget: int
    threads: int
    instruction_set: str | None

    def __str__(self) -> str:
        n, m = self.shape
        simd = f", {self.instruction_set}" if self.instruction_set else ""
        return (
            f"{n} × {m} {self.dtype} kernel matrix on {self.device}\n"
            f"engine: {self.engine}{simd}, {self.threads} threads, blocks of {self.block_rows} rows ({self.reason})\n"
            f"cache:  {'yes, from the second product on' if self.cache else 'no'} ({self.cache_reason})\n"
            f"memory: temporaries stay under {readable(self.memory_budget)}"
        )


def readable(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def free_memory(device: torch.device) -> int:
    """Bytes that are free now, or a guess where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else 4 << 30


def default_budget(device: torch.device) -> int:
    """A quarter of the memory that is free now."""
    return free_memory(device) // 4


def worth_caching(
    shape: tuple[int, int], features: float, dtype: torch.dtype, budget: int, outputs: int = 1
) -> tuple[bool, str]:
    """Whether to keep K in memory after its first product with so many columns, and why."""
    size = shape[0] * shape[1] * dtype.itemsize
    if size > budget // 2:
        return False, f"K would take {readable(size)}, more than half the budget"
    make, read = costs.entry(features, dtype, outputs), costs.cached_entry(dtype, outputs)
    if PRODUCTS * (make - read) < costs.FILLED_ENTRY_NS:
        return False, f"an entry costs as much as one of {features:.0f} features, too little for keeping it to pay off"
    return True, f"K takes {readable(size)} and reading an entry is {make / read:.1f} times cheaper than making it"
