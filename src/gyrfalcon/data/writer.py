"""Writing what was predicted, chunk by chunk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .arrow import arrow_package
from .atomic import replacing
from .source import Array

Write = Callable[[Array], None]


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
    chunks : iterable of arrays of shape (rows,) or (rows, len(names))
        All of one type.

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
    rows, dtype = 0, None
    with replacing(path) as temporary, contextlib.ExitStack() as stack:
        writer: Write | None = None
        for number, chunk in enumerate(chunks):
            table = np.asarray(chunk)
            table = table[:, None] if table.ndim == 1 else table
            if table.ndim != 2 or table.shape[1] != len(names):
                raise ValueError(f"chunk {number} must have {len(names)} columns, got shape {np.shape(chunk)}")
            if writer is None:
                dtype = table.dtype
                writer = stack.enter_context(_WRITERS[path.suffix](temporary, list(names), table))
            if table.dtype != dtype and not table.dtype.kind == dtype.kind == "U":  # type: ignore[union-attr]
                raise TypeError(f"chunk {number} holds {table.dtype} but those before it hold {dtype}")
            writer(table)
            rows += len(table)
        if writer is None:
            raise ValueError(f"chunks: there are none, so {path} was not written")
    return rows


@contextlib.contextmanager
def _npy(path: Path, names: list[str], first: Array) -> Iterator[Write]:
    if first.dtype.kind not in "biuf":
        raise TypeError(f"{path.suffix} files hold numbers here, got {first.dtype}: write a .parquet or .csv file")
    rows = 0
    with open(path, "wb") as file:
        _npy_header(file, first, 0)

        def write_rows(table: Array) -> None:
            nonlocal rows
            rows += len(table)
            file.write(np.ascontiguousarray(table).data)

        yield write_rows
        file.seek(0)
        _npy_header(file, first, rows)


def _npy_header(file: BinaryIO, like: Array, rows: int) -> None:
    """A header has room for more digits of the number of rows, so it can be written again once they are counted."""
    shape = (rows,) if like.shape[1] == 1 else (rows, like.shape[1])
    descr = np.lib.format.dtype_to_descr(like.dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _batch(names: list[str], table: Array) -> Any:
    pa = arrow_package()
    return pa.record_batch([pa.array(np.ascontiguousarray(column)) for column in table.T], names=names)


@contextlib.contextmanager
def _parquet(path: Path, names: list[str], first: Array) -> Iterator[Write]:
    from pyarrow import parquet

    with parquet.ParquetWriter(path, _batch(names, first).schema) as writer:
        yield lambda table: writer.write_batch(_batch(names, table))


@contextlib.contextmanager
def _feather(path: Path, names: list[str], first: Array) -> Iterator[Write]:
    pa = arrow_package()
    with pa.ipc.new_file(str(path), _batch(names, first).schema) as writer:
        yield lambda table: writer.write_batch(_batch(names, table))


@contextlib.contextmanager
def _csv(path: Path, names: list[str], first: Array) -> Iterator[Write]:
    arrow_package()
    from pyarrow import csv

    with csv.CSVWriter(path, _batch(names, first).schema) as writer:
        yield lambda table: writer.write_batch(_batch(names, table))


_WRITERS = {".npy": _npy, ".parquet": _parquet, ".feather": _feather, ".csv": _csv}
