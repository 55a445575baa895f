"""The rows of a square matrix that may lie in a file, and how few of their pages stay in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_PASSING = 4 << 20  # bytes of a file that are mapped at a time
_AROUND = 2 << 20  # bytes about a page that Linux may map with it, for that is the largest page of its cache


class Rows:
    """The rows of a C-ordered matrix, of which a memory map keeps few pages resident at a time."""

    def __init__(self, matrix: Array):
        self.matrix = matrix
        self._map = _shared_map(matrix)
        if self._map is not None:
            start = np.frombuffer(self._map, dtype=np.uint8).ctypes.data
            self._offset = matrix.ctypes.data - start

    def strips(self, first: int, last: int) -> Iterator[slice]:
        """Slices of rows from first to last; the pages of each are let go when the next is asked for."""
        pitch = max(1, self.matrix.strides[0])
        height = max(1, _PASSING // pitch) if self._map is not None else max(1, last - first)
        for start in range(first, last, height):
            stop = min(last, start + height)
            yield slice(start, stop)
            self.release(start, stop)

    def release(self, first: int, last: int) -> None:
        """Give back the pages of some rows; the file, or the kernel's cache of it, has what was written."""
        if self._map is None:
            return
        pitch = self.matrix.strides[0]
        start = max(0, self._offset + first * pitch - _AROUND)
        start -= start % mmap.PAGESIZE
        stop = min(len(self._map), self._offset + last * pitch + _AROUND)
        self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)


def _shared_map(matrix: Array) -> mmap.mmap | None:
    """The map of the file that an array is a view of, if its pages may be dropped: not those of mode "c"."""
    shared, owner = False, matrix
    while isinstance(owner, np.ndarray):
        shared |= isinstance(owner, np.memmap) and owner.mode != "c"
        owner = owner.base  # type: ignore[assignment]
    return owner if shared and isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


def as_rows(matrix: Array) -> tuple[Array, bool]:
    """The matrix, or its transpose, whichever is C-ordered, and whether it is the transpose."""
    if not isinstance(matrix, np.ndarray):
        raise TypeError(f"matrix must be a NumPy array or memory map, got {type(matrix).__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, got shape {matrix.shape}")
    if matrix.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(f"matrix must hold float32 or float64 in native byte order, got {matrix.dtype}: use .astype")
    if matrix.flags.c_contiguous:
        return matrix, False
    if matrix.flags.f_contiguous:
        return matrix.T, True
    raise ValueError("matrix must be contiguous, C- or Fortran-ordered: a view of a part must be copied first")


def as_rows_to_write(matrix: Array) -> tuple[Array, bool]:
    """As `as_rows`, for a matrix that is to be overwritten."""
    found = as_rows(matrix)
    if not matrix.flags.writeable:
        raise ValueError("matrix must be writeable, for it is overwritten: open a memory map with mode='r+'")
    return found


def as_bytes(memory_budget: int) -> int:
    """A memory budget that was checked."""
    if not isinstance(memory_budget, Integral) or memory_budget <= 0:
        raise ValueError(f"memory_budget must be a positive number of bytes, got {memory_budget!r}")
    return int(memory_budget)
