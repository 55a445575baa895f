"""Evaluations that keep every operation to one thread, and share out blocks of rows instead.

Matrices of a few hundred columns gain little from more, and lose a hundredfold where threads have to wait for a core
that another process has.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Evaluate = TypeVar("Evaluate", bound=Callable[..., Any])
Item = TypeVar("Item")
Result = TypeVar("Result")


def take_one_thread() -> int:
    """Keep operations of this Python thread to one thread; how many it had."""
    before = torch.get_num_threads()  # a thread that never asked would take the next number that any other sets
    torch.set_num_threads(1)
    return before


class _Here(threading.local):
    """What keeps to one thread in calls of this Python thread: every "operation", or all "but products"."""

    kept: str | None = None


class _Process:
    """What calls share that run at the same time: how many there are, and the threads before the first of them.

    `torch.set_num_threads` is for the thread that calls it and for all that begin later, so that one that begins during
    a call finds a number which is not the user's. The threads of BLAS are one number for the whole process: one call
    sets it and gives it back, since a second would give back what the first had set.
    """

    def __init__(self) -> None:
        self.lock, self.here = threading.Lock(), _Here()
        self.calls, self.threads = 0, 1
        self.limits_blas = False  # whether one of the calls does

    @contextmanager
    def one_thread(self, kept: str) -> Iterator[None]:
        before = self.here.kept
        if before is not None:
            self.here.kept = kept
            try:
                yield
            finally:
                self.here.kept = before
            return
        with self.lock:
            threads = take_one_thread()
            if self.calls == 0:
                self.threads = threads
            self.calls += 1
            limits_blas, self.limits_blas = not self.limits_blas, True
        self.here.kept = kept
        try:
            with blas_libraries().limit(limits=1) if limits_blas else nullcontext():
                yield
        finally:
            self.here.kept = None
            with self.lock:
                self.calls -= 1
                if limits_blas:
                    self.limits_blas = False
                torch.set_num_threads(self.threads)


_process = _Process()


@functools.cache
def blas_libraries() -> ThreadpoolController:
    """NumPy's and SciPy's BLAS, whose threads PyTorch does not count."""
    return ThreadpoolController().select(user_api="blas")


def one_thread_each(evaluate: Evaluate) -> Evaluate:
    """Have a function keep every operation to one thread; `threads_to_share` are for blocks of rows."""

    @functools.wraps(evaluate)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if _process.here.kept == "operation":
            return evaluate(*args, **kwargs)
        with _process.one_thread("operation"):
            return evaluate(*args, **kwargs)

    return cast(Evaluate, wrapped)


def one_thread_but_for_products() -> AbstractContextManager[None]:
    """Keep factorizations and tensor operations to one thread, but not the compiled core's products with K.

    The threads of BLAS and OpenMP wait for more work by running idle, which in a fit of few centers takes several times
    the processor time of the work itself. Those of the core end with each product.
    """
    return _process.one_thread("but products")


def threads_to_share() -> int:
    """How many threads there are for blocks of rows: one, unless operations are kept to one."""
    return _process.threads if _process.here.kept == "operation" else 1


def threads_of_products() -> int:
    """How many threads a product with K takes: as many as PyTorch's operations, if those are not kept to one alone."""
    return _process.threads if _process.here.kept == "but products" else torch.get_num_threads()


def in_turn(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[Result]:
    """What work makes of each item, in their order, by so many workers of one thread each."""
    if workers <= 1 or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers, initializer=take_one_thread) as pool:
        yield from pool.map(work, items)
