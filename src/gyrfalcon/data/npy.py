"""NumPy's own files."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import ArraySource


def open_npy(path: str, columns: Any = None, dtype: Any = np.float32) -> ArraySource:
    """A .npy file through a memory map, whose pages are given back as soon as they have been read."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a .npy file: {error}") from error
    return ArraySource(array, columns, dtype, where=path, forget=pages_of(array))


def pages_of(array: Any) -> Callable[[], None] | None:
    """A function that gives back the pages of a memory map, or None where there are none to give back.

    Never those of a private map (mode "c"): they may hold what the user wrote, and nothing else does.
    """
    pages = getattr(array, "_mmap", None)
    if not isinstance(pages, mmap.mmap) or array.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return lambda: pages.madvise(mmap.MADV_DONTNEED)
