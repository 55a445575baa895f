"""What a Dask worker does in a product: another engine's work on one block of rows, with the threads it has."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from gyrfalcon.arrays import to_tensor
from gyrfalcon.data.dask_source import rows_of
from gyrfalcon.kernels import Kernel

from .engine import Engine, Work, add_up
from .streamed_engine import ChunkEngine

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Recipe:
    """All that the engine of a block is made of, but its rows. `threads` are those of a process that is no worker."""

    kernel: Kernel
    C: Array
    make: ChunkEngine
    budget: int
    dtype: np.dtype[Any]
    threads: int

    def engine(self, block: Array, start: int, stop: int) -> Engine:
        return self.make(self.kernel, rows_of(block, start, stop, self.dtype), self.C, self.budget)


def run(recipe: Recipe, block: Array, start: int, stop: int, method: str, *arguments: Any) -> Array:
    """What the method of that name of the engine of those rows returns."""
    with turn(recipe.threads), torch.no_grad():
        engine = recipe.engine(block, start, stop)
        given = [to_tensor(value) if isinstance(value, np.ndarray) else value for value in arguments]
        return np.asarray(getattr(engine, method)(*given).numpy())


def add(parts: Sequence[Array]) -> Array:
    """Their sum in float64, from the first to the last."""
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total += part
    return total


def reduce(recipe: Recipe, block: Array, start: int, stop: int, work: Work, columns: Any, rows: int) -> Any:
    """What the engine of those rows reduces to."""
    with turn(recipe.threads), torch.no_grad():
        given = [None if column is None else to_tensor(column) for column in columns]
        return recipe.engine(block, start, stop).reduce(work, given, rows)


def add_tuples(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Their sums, entry by entry, from the first to the last."""
    first, *others = parts
    return add_up(iter([tuple(part.copy() for part in first), *others]))


_turns: dict[str, threading.Lock] = {}  # by the address of the worker: some clusters have several in one process


@contextlib.contextmanager
def turn(threads: int) -> Iterator[None]:
    """One product at a time on a worker, with all of its threads: as many products with as many each would be n²."""
    name, threads = _worker() or ("", threads)
    with _turns.setdefault(name, threading.Lock()), _limited(threads):
        yield


def _worker() -> tuple[str, int] | None:
    """The address and the threads of the worker that runs this, if one does."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return None
    return worker.address, worker.state.nthreads


@contextlib.contextmanager
def _limited(threads: int) -> Iterator[None]:
    """PyTorch and BLAS on so many threads, the latter for gram matrices. PyTorch's number is that of this thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _libraries().limit(limits=threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
