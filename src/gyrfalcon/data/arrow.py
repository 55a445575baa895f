"""Columns of Arrow record batches: what Parquet and Feather files have in common."""

from __future__ import annotations

import contextlib
import os
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .source import Array, Source, refuse_text

BATCH_ROWS = 1 << 15  # rows of a record batch: small enough that turning columns into rows stays in cache


def arrow_package() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("reading Parquet, Feather and CSV needs pyarrow: pip install 'gyrfalcon[arrow]'") from error
    return pyarrow


class ArrowSource(Source):
    """Numeric columns of a file that is read as Arrow record batches.

    Parameters
    ----------
    path : str
    kind : str
        What the format is called in errors.
    features : sequence of str, optional
        The columns, in the order of the features; all but those in `without` if not given.
    without : sequence of str
        Columns that are not features: targets and weights.
    dtype : numpy.float32 or numpy.float64
    where : str, optional
        What errors call the file if not by its path.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        features: Sequence[str] | None = None,
        without: Sequence[str] = (),
        dtype: Any = np.float32,
        where: str | None = None,
    ):
        self.path, self.kind, where = path, kind, where or path
        self._pa = arrow_package()
        self._stamp = stamp(path)
        with self._reading(where):
            self.schema, n = self._open()
        stored = list(self.schema.names)
        if repeated := sorted({name for name in stored if stored.count(name) > 1}):
            raise ValueError(f"{where} has several columns called {repeated[0]!r}: rename them")
        chosen = [name for name in stored if name not in without] if features is None else list(features)
        super().__init__(where, (n, len(chosen)), dtype, chosen)
        self._check_columns([*chosen, *without])
        types = {name: self.schema.field(name).type for name in chosen}
        refuse_text(where, {name: kind for name, kind in types.items() if not self._is_number(kind)})

    @abstractmethod
    def _open(self) -> tuple[Any, int]:
        """The schema and the number of rows."""

    @abstractmethod
    def _batches(self, names: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Record batches that hold at least the rows asked for, in order, each with the number of its first row."""

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        names = self.names or ()
        for first, batch in self._checked_batches(names, start, stop):
            batch = batch.slice(max(0, start - first), stop - max(start, first))
            out = np.empty((batch.num_rows, len(names)), dtype=self.dtype)
            with np.errstate(over="ignore"):  # infinity is complained of where all chunks are checked
                for j, name in enumerate(names):
                    out[:, j] = self._values(batch.column(name), name, max(start, first))
            yield out

    def columns(self, wanted: Sequence[str]) -> list[Array]:
        """Some columns in memory, numbers or text, read in one pass; text comes as strings, each kept once."""
        out: list[Array] = []
        self._check_columns(wanted)
        for first, batch in self._checked_batches(wanted, 0, len(self)):
            parts = [self._values(batch.column(name), name, first) for name in wanted]
            if not out:
                out = [np.empty(len(self), dtype=part.dtype) for part in parts]
            for column, part in zip(out, parts, strict=True):
                column[first : first + len(part)] = part
        return out

    def _checked_batches(self, names: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, Any]]:
        if stamp(self.path) != self._stamp:
            raise ValueError(f"{self.where} has changed since it was opened: open it again")
        with self._reading(self.where):
            yield from self._batches(names, start, stop)

    @contextlib.contextmanager
    def _reading(self, where: str) -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError) as error:
            raise ValueError(f"{where} cannot be read as {self.kind}: {error}") from error

    def _check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.schema.names:
                raise ValueError(f"{self.where} has no column {name!r}: it has {', '.join(self.schema.names)}")

    def _is_number(self, kind: Any) -> bool:
        types = self._pa.types
        if types.is_dictionary(kind):
            return self._is_number(kind.value_type)
        return bool(
            types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        )

    def _values(self, column: Any, name: str, first: int) -> Array:
        """A column of a batch as an array of numbers or strings."""
        if column.null_count and not (self.keeps_missing and self._is_number(column.type)):
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self.where}: row {row}, column {name!r} holds no value: drop or impute such rows first")
        types, kind = self._pa.types, column.type
        if self._is_number(kind):
            if types.is_dictionary(kind):
                column = column.dictionary_decode()
            if types.is_decimal(column.type) or (column.null_count and types.is_boolean(column.type)):
                column = column.cast(self._pa.float64())
            return np.asarray(column.to_numpy(zero_copy_only=False))
        encoded = column if types.is_dictionary(kind) else column.dictionary_encode()
        text = encoded.type.value_type
        if not (types.is_string(text) or types.is_large_string(text) or types.is_string_view(text)):
            raise ValueError(f"{self.where}: column {name!r} holds {kind}, and only numbers and text are read")
        categories = np.array([sys.intern(value) for value in encoded.dictionary.to_pylist()], dtype=object)
        return np.asarray(categories[encoded.indices.to_numpy(zero_copy_only=False)])


def stamp(path: str) -> tuple[int, int]:
    """What changes when a file does."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
