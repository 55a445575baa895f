"""Reading the next item while the last one is being worked on."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Queue
from typing import Any, TypeVar

T = TypeVar("T")

DEPTH = 2  # items that wait; one more is being read and one more is with whoever asked
_ITEM, _ERROR, _END = range(3)


def read_ahead(items: Iterator[T], depth: int = DEPTH) -> Generator[T, None, None]:
    """The same items, made by one background thread that stays a few ahead.

    What the reader raises is raised here. Closing the generator, dropping it or an exception in whoever uses it ends
    the thread before anything else happens.
    """
    queue: Queue[tuple[int, Any]] = Queue(depth)
    stopped = threading.Event()

    def read() -> None:
        try:
            for item in items:
                if stopped.is_set():
                    return
                queue.put((_ITEM, item))
                del item  # or it would live on while the next one is read
            message: tuple[int, Any] = (_END, None)
        except BaseException as error:
            message = (_ERROR, error)
        finally:
            if isinstance(items, Generator):
                items.close()
        if not stopped.is_set():
            queue.put(message)

    thread = threading.Thread(target=read, name="gyrfalcon-reader", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = queue.get()
            if kind == _END:
                return
            if kind == _ERROR:
                raise item
            yield item
            del item
    finally:
        stopped.set()
        while not queue.empty():  # at most one put follows, and now there is room for it
            queue.get()
        thread.join()
