"""Several files as one source: a list of paths, a pattern such as trips/*.parquet, or a folder."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .source import Array, Source

CONVERTED = ".gyrfalcon.parquet"  # how the names end of what CSV files are converted to
_ZARR = ("zarr.json", ".zarray", ".zgroup")


class JoinedSource(Source):
    """The rows of several sources, one after the other.

    Parameters
    ----------
    parts : sequence of Source
        With the same features.
    where : str
        What errors call all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import data
    >>> first, second = (data.open(np.full((2, 3), value)).X for value in (1.0, 2.0))
    >>> data.JoinedSource([first, second], "both").rows(1, 3).tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """

    def __init__(self, parts: Sequence[Source], where: str):
        first = parts[0]
        for part in parts[1:]:
            if part.shape[1] != first.shape[1] or part.names != first.names:
                raise ValueError(f"{part.where} has other features than {first.where}: give files that have the same")
        self._parts = list(parts)
        self._ends = np.cumsum([len(part) for part in parts])
        super().__init__(where, (int(self._ends[-1]), first.shape[1]), first.dtype, first.names)

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        for part, end in zip(self._parts, self._ends.tolist(), strict=True):
            begin = end - len(part)
            first, last = max(start, begin) - begin, min(stop, end) - begin
            if first < last:
                # Through the part's own chunks, whose checks name the file and its row.
                yield from (chunk for _, chunk in part._chunks(first, last, part.chunk_rows()))

    def columns(self, wanted: Sequence[Any]) -> list[Array]:
        """Some columns of all parts, in memory."""
        found = [part.columns(wanted) for part in self._parts]  # type: ignore[attr-defined]  # files have it
        return [np.concatenate(columns) for columns in zip(*found, strict=True)]


def files_of(data: Any, endings: tuple[str, ...]) -> list[str] | None:
    """The files that a list of paths, a pattern or a folder stands for, in order; None for anything else.

    Parameters
    ----------
    data : list of paths, or path
    endings : tuple of str
        How the names of files end that are taken from a folder.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", "notes.md"):
    ...         pathlib.Path(folder, name).touch()
    ...     [pathlib.Path(path).name for path in files_of(folder, (".csv",))]
    ...     [pathlib.Path(path).name for path in files_of(f"{folder}/*.md", (".csv",))]
    ['a.csv', 'b.csv']
    ['notes.md']
    """
    if isinstance(data, list | tuple):
        if not data or not all(isinstance(path, str | os.PathLike) for path in data):
            return None
        return [os.fspath(path) for path in data]
    if not isinstance(data, str | os.PathLike):
        return None
    path = os.fspath(data)
    if os.path.isdir(path):
        return _of_folder(path, endings)
    if os.path.exists(path) or not glob.has_magic(path):
        return None
    found = sorted(name for name in glob.glob(path, recursive=True) if not name.endswith(CONVERTED))
    if not found:
        raise FileNotFoundError(f"{path}: no file has such a name")
    return found


def _of_folder(path: str, endings: tuple[str, ...]) -> list[str] | None:
    if path.lower().rstrip("/\\").endswith(".zarr") or any(os.path.exists(os.path.join(path, name)) for name in _ZARR):
        return None
    every = sorted(
        str(file) for file in Path(path).rglob("*") if file.is_file() and not file.name.startswith((".", "_"))
    )
    found = [name for name in every if name.lower().endswith(endings) and not name.endswith(CONVERTED)]
    if not found:
        raise ValueError(f"{path} is a folder without files that can be read: {', '.join(endings)}")
    kinds = {os.path.splitext(name)[1].lower() for name in found}
    if len(kinds) > 1:
        raise ValueError(
            f"{path} holds files of several kinds, {', '.join(sorted(kinds))}: name those of one kind, *.csv"
        )
    return found


def join(paths: Sequence[str], opened: Callable[[str, Any], Source], features: Any, where: str) -> Source:
    """The sources of several files as one; columns may be in another order, but they are the same."""
    first = opened(paths[0], features)
    if len(paths) == 1:
        return first
    parts = [first]
    for path in paths[1:]:
        part = opened(path, features)
        if first.names is not None and part.names is not None and sorted(first.names) == sorted(part.names):
            part = part if part.names == first.names else opened(path, list(first.names))
        parts.append(part)
    return JoinedSource(parts, where)
