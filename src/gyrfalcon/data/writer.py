"""Writing what was predicted, chunk by chunk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .arrow import arrow_package
from .atomic import replacing
from .source import Array

Columns = list[Array]
Write = Callable[[Columns], None]


def write(path: str | os.PathLike[str], names: Sequence[str], chunks: Iterable[Any]) -> int:
    """Write chunks of rows to a .npy, .parquet, .feather or .csv file; returns how many rows there were.

    The file appears when the last chunk has been written; if anything goes wrong there is none, and one that was there
    before stays as it was.

    Parameters
    ----------
    path : path
        Its ending says what to write.
    names : sequence of str
        Of the columns. A .npy file has no place for them; with one name it holds a vector.
    chunks : iterable of arrays of shape (rows,) or (rows, len(names)), or of dicts of columns with those names
        All chunks of one type, or of the same type column by column.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from gyrfalcon import data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.write(f"{folder}/predicted.npy", ["y"], (np.full(2, i) for i in range(3)))
    ...     np.load(f"{folder}/predicted.npy")
    6
    array([0, 0, 1, 1, 2, 2])
    """
    path = Path(path)
    if path.suffix not in _WRITERS:
        raise ValueError(f"{path} must end in one of {', '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} does not exist: make the folder first")
    rows, kinds = 0, []  # type: tuple[int, list[np.dtype[Any]]]
    with replacing(path) as temporary, contextlib.ExitStack() as stack:
        writer: Write | None = None
        for number, chunk in enumerate(chunks):
            columns = _columns(chunk, names, number)
            if writer is None:
                kinds = [column.dtype for column in columns]
                writer = stack.enter_context(_WRITERS[path.suffix](temporary, list(names), columns))
            for column, kind in zip(columns, kinds, strict=True):
                if column.dtype != kind and not column.dtype.kind == kind.kind == "U":
                    raise TypeError(f"chunk {number} holds {column.dtype} but those before it hold {kind}")
            writer(columns)
            rows += len(columns[0])
        if writer is None:
            raise ValueError(f"chunks: there are none, so {path} was not written")
    return rows


def _columns(chunk: Any, names: Sequence[str], number: int) -> Columns:
    if isinstance(chunk, Mapping):
        if list(chunk) != list(names):
            raise ValueError(f"chunk {number} has the columns {list(chunk)}, and {list(names)} were to be written")
        return [np.asarray(column) for column in chunk.values()]
    table = np.asarray(chunk)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(f"chunk {number} must have {len(names)} columns, got shape {np.shape(chunk)}")
    return list(table.T)


@contextlib.contextmanager
def _npy(path: Path, names: list[str], first: Columns) -> Iterator[Write]:
    for column in first:
        if column.dtype.kind not in "biuf":
            raise TypeError(f"{path.suffix} files hold numbers here, got {column.dtype}: write a .parquet or .csv file")
    like, rows = np.stack(first, 1), 0
    with open(path, "wb") as file:
        _npy_header(file, like, 0)

        def write_rows(columns: Columns) -> None:
            nonlocal rows
            rows += len(columns[0])
            file.write(np.ascontiguousarray(np.stack(columns, 1)).data)

        yield write_rows
        file.seek(0)
        _npy_header(file, like, rows)


def _npy_header(file: BinaryIO, like: Array, rows: int) -> None:
    """A header has room for more digits of the number of rows, so it can be written again once they are counted."""
    shape = (rows,) if like.shape[1] == 1 else (rows, like.shape[1])
    descr = np.lib.format.dtype_to_descr(like.dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _batch(names: list[str], columns: Columns) -> Any:
    pa = arrow_package()
    return pa.record_batch([pa.array(np.ascontiguousarray(column)) for column in columns], names=names)


@contextlib.contextmanager
def _parquet(path: Path, names: list[str], first: Columns) -> Iterator[Write]:
    from pyarrow import parquet

    with parquet.ParquetWriter(path, _batch(names, first).schema) as writer:
        yield lambda columns: writer.write_batch(_batch(names, columns))


@contextlib.contextmanager
def _feather(path: Path, names: list[str], first: Columns) -> Iterator[Write]:
    pa = arrow_package()
    with pa.ipc.new_file(str(path), _batch(names, first).schema) as writer:
        yield lambda columns: writer.write_batch(_batch(names, columns))


@contextlib.contextmanager
def _csv(path: Path, names: list[str], first: Columns) -> Iterator[Write]:
    arrow_package()
    from pyarrow import csv

    with csv.CSVWriter(path, _batch(names, first).schema) as writer:
        yield lambda columns: writer.write_batch(_batch(names, columns))


_WRITERS = {".npy": _npy, ".parquet": _parquet, ".feather": _feather, ".csv": _csv}
