"""A place for one thing: whoever is slow gets the newest, and what came between is dropped."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Holds the newest of what is put in until it is taken.

    >>> async def example():
    ...     slot = Latest()
    ...     for frame in ("first", "second", "third"):
    ...         slot.put(frame)
    ...     return await slot.take(), slot.dropped
    >>> asyncio.run(example())
    ('third', 2)
    """

    def __init__(self) -> None:
        self._held: list[T] = []
        self._filled = asyncio.Event()
        self.dropped = 0

    def put(self, item: T) -> None:
        self.dropped += len(self._held)
        self._held = [item]
        self._filled.set()

    def clear(self) -> None:
        self._held = []
        self._filled.clear()

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._held)

    async def take(self) -> T:
        while not self._held:  # what has woken this up may have been cleared since
            await self._filled.wait()
        self._filled.clear()
        return self._held.pop()
