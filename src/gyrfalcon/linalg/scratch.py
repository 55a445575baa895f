"""Temporary files for matrices that memory does not hold."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

Array = np.ndarray[Any, Any]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LARGE_FILES = Path("/var/tmp")  # which is on a disk where /tmp is memory


class ScratchFullError(OSError):
    """A temporary file that does not fit where it should be."""


class Scratch:
    """A temporary file for numbers, which is written from its beginning and then mapped.

    It has no name: no process that ends, however it ends, leaves it behind. All of it is allocated at the start, since
    a process that maps a file is killed when the disk turns out to be full.

    Parameters
    ----------
    size : int
        Bytes.
    directory : str or path, optional
        The one of `tempfile`, which TMPDIR sets, if not given; /var/tmp if that one is in memory.
    """

    def __init__(self, size: int, directory: str | os.PathLike[str] | None = None):
        self.size = size
        self.directory = Path(directory if directory is not None else _default_directory())
        free = shutil.disk_usage(self.directory).free
        if free < size:
            raise self._full()
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 (this class is the manager)
        try:
            with self._named():
                _allocate(self._file, size)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file; a map of it goes on."""
        with self._named():
            self._file.close()

    def write(self, block: Array) -> None:
        """Append a contiguous array, in the order of its memory."""
        with self._named():
            self._put(block.ravel(order="A").view(np.uint8).data)

    def _put(self, content: memoryview) -> None:
        self._file.write(content)

    def mapped(self, dtype: np.dtype[Any], shape: tuple[int, int]) -> Array:
        """The file as a Fortran-ordered memory map, with which it goes."""
        with self._named():
            self._file.flush()
        mapped: Array = np.memmap(self._file, dtype, "r+", shape=shape, order="F")
        return mapped

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise self._full() from error
            raise

    def _full(self) -> ScratchFullError:
        free = shutil.disk_usage(self.directory).free
        return ScratchFullError(
            errno.ENOSPC,
            f"a temporary file of {self.size / 1e9:.3g} GB does not fit, for {free / 1e9:.3g} GB are free: name a "
            f"directory on a larger disk, by TMPDIR or `directory`; or raise memory_budget to twice the size of the "
            f"file, if there is so much memory, and none is made; or choose fewer centers",
            str(self.directory),
        )


def _allocate(file: IO[bytes], size: int) -> None:
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except AttributeError:  # not every system has it
        file.truncate(size)
    except OSError as error:
        if error.errno in _FULL:
            raise
        file.truncate(size)  # not every file system has it


def _default_directory() -> Path:
    usual = Path(tempfile.gettempdir())
    if _in_memory(usual) and os.access(_LARGE_FILES, os.W_OK) and not _in_memory(_LARGE_FILES):
        return _LARGE_FILES
    return usual


def _in_memory(directory: Path) -> bool:
    """Whether a directory is on a file system that is kept in memory; False where that cannot be known."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            kinds = {mount[1]: mount[2] for line in file if len(mount := line.split()) > 2}
    except OSError:
        return False
    above = (str(path) for path in (directory.resolve(), *directory.resolve().parents))
    return next((kinds[path] for path in above if path in kinds), "") in ("tmpfs", "ramfs")
