"""Rows that need not fit memory: read in order, a chunk at a time, as often as someone asks."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np

from .read_ahead import read_ahead

Array = np.ndarray[Any, Any]
Chunks = Generator[tuple[slice, Array], None, None]

CHUNK_ROWS = 1 << 17  # products with so many rows hide what starting them costs
CHUNK_BYTES = 16 << 20
NAMED = 5  # columns, in an error


class Source(ABC):
    """A matrix of n rows of d numbers, read in sequential passes and never held as a whole.

    To write a reader, define `_read` and call `__init__`. The numbers do not depend on how rows are cut into chunks,
    and every chunk is checked: NaN or infinity is an error that names the file and the row.

    Parameters
    ----------
    where : str
        What errors call the source: the path of a file, as a rule.
    shape : (n, d)
    dtype : numpy.float32 or numpy.float64
        What the numbers become, whatever they are stored as.
    names : sequence of str, optional
        Of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import data
    >>> source = data.open(np.arange(10.0).reshape(5, 2)).X
    >>> source
    ArraySource(5 × 2, float32, array)
    >>> for rows, chunk in source.chunks(rows=2):
    ...     print(rows.start, rows.stop, chunk.sum())
    0 2 6.0
    2 4 22.0
    4 5 17.0
    >>> source[1:3].to_array()
    array([[2., 3.],
           [4., 5.]], dtype=float32)
    >>> source.take([4, 0])
    array([[8., 9.],
           [0., 1.]], dtype=float32)
    """

    def __init__(self, where: str, shape: tuple[int, int], dtype: Any, names: Any = None):
        self.where = where
        self.shape = shape
        self.dtype = _checked_dtype(dtype)
        self.names: tuple[str, ...] | None = None if names is None else tuple(names)
        self.keeps_missing = False  # whether NaN and infinity are handed on
        self._window: tuple[int, Array] | None = None
        self._kept: tuple[Array, Array] | None = None

    @abstractmethod
    def _read(self, start: int, stop: int) -> Iterator[Array]:
        """Those rows in order, in arrays of any length and any type of numbers; more rows at the end do not hurt."""

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        return f"{type(self).__name__}({n} × {d}, {self.dtype}, {self.where})"

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError(f"{self!r} is read in chunks: call .to_array() if all of its rows fit memory")

    def chunk_rows(self, budget: int | None = None) -> int:
        """How many rows a chunk has if nobody says: near 16 MB and no more than 131,072, or what the budget allows."""
        most = CHUNK_BYTES if budget is None else min(CHUNK_BYTES, budget // 8)  # some chunks are alive at once
        fitting = max(1, most // (max(1, self.shape[1]) * self.dtype.itemsize))
        return int(min(CHUNK_ROWS, 1 << (fitting.bit_length() - 1)))

    def chunks(
        self,
        start: int = 0,
        stop: int | None = None,
        rows: int | None = None,
        *,
        through: Callable[[Array], Any] | None = None,
    ) -> Generator[tuple[slice, Any], None, None]:
        """One pass: slices of rows and the rows themselves, C-contiguous, while a thread reads the next ones.

        All chunks but the last have `rows` rows. The reading thread passes each through a function, if there is one.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        rows = self.chunk_rows() if rows is None else rows
        if rows < 1:
            raise ValueError(f"rows must be a positive integer, got {rows!r}")
        chunks = self._chunks(start, max(start, stop), rows)
        if through is None:
            return read_ahead(chunks)
        return read_ahead((some, through(chunk)) for some, chunk in chunks)

    def __getitem__(self, rows: slice) -> Source:
        named = self._checked_slice(rows)
        return View(self, named.start, named.stop, self.dtype)

    def _checked_slice(self, rows: slice) -> slice:
        if not isinstance(rows, slice):
            raise TypeError(f"a source takes slices of rows, got {rows!r}: use .take for single ones")
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"a source takes slices of step 1, got {rows}: use .take")
        return slice(start, max(start, stop))

    def astype(self, dtype: Any, copy: bool = False) -> Source:
        """The same numbers in another type. What was rounded to float32 stays so."""
        return self if _checked_dtype(dtype) == self.dtype else View(self, 0, len(self), dtype)

    def keep(self, indices: Any) -> Array:
        """Gather rows in one pass, and keep them: `take` does not read them again. Returns them.

        >>> import numpy as np
        >>> from gyrfalcon import data
        >>> source = data.open(np.arange(10.0).reshape(5, 2)).X
        >>> source.keep([0, 3]).tolist(), source.spread(2).tolist()
        ([[0.0, 1.0], [6.0, 7.0]], [0, 3])
        """
        wanted = np.unique(self._checked_indices(indices))
        self._kept = None
        self._kept = wanted, self.take(wanted)
        return self._kept[1]

    def spread(self, count: int) -> Array:
        """The numbers of at most so many rows, evenly spaced: among those that are kept, if enough are, or all."""
        kept = None if self._kept is None else self._kept[0]
        if kept is not None and len(kept) >= count:
            return np.asarray(kept[np.unique(np.linspace(0, len(kept) - 1, count).astype(int))])
        return np.unique(np.linspace(0, len(self) - 1, count).astype(int))

    def take(self, indices: Any) -> Array:
        """Those rows, in the order asked for, gathered in one pass, or without one if they are kept."""
        wanted = self._checked_indices(indices)
        if self._kept is not None and len(self._kept[0]):
            kept, values = self._kept
            places = np.minimum(np.searchsorted(kept, wanted), len(kept) - 1)
            if np.array_equal(kept[places], wanted):
                return np.asarray(values[places])
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        if len(wanted) == 0:
            return out
        order = np.argsort(wanted, kind="stable")
        ascending = wanted[order]
        with contextlib.closing(self.chunks(int(ascending[0]), int(ascending[-1]) + 1)) as chunks:
            for rows, chunk in chunks:
                here = slice(*np.searchsorted(ascending, [rows.start, rows.stop]))
                out[order[here]] = chunk[ascending[here] - rows.start]
        return out

    def _checked_indices(self, indices: Any) -> Array:
        """Row numbers counted from the first row."""
        wanted = np.asarray(indices)
        if wanted.ndim != 1 or (len(wanted) and wanted.dtype.kind not in "iu"):
            raise TypeError(f"indices must be a vector of integers, got {wanted.dtype} of shape {wanted.shape}")
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"indices must lie in [{-len(self)}, {len(self)}), got {np.asarray(indices)}")
        return wanted

    def to_array(self) -> Array:
        """All rows in memory."""
        return self.rows(0, len(self))

    def rows(self, start: int, stop: int) -> Array:
        """Those rows in memory. Some around them are kept, so that asking for small slices in turn reads few twice."""
        step = self.chunk_rows()
        if stop - start > step:
            out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
            with contextlib.closing(self.chunks(start, stop)) as chunks:
                for rows, chunk in chunks:
                    out[rows.start - start : rows.stop - start] = chunk
            return out
        parts = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        while start < stop:
            first, window = self._around(start // step * step, step)
            parts.append(window[start - first : stop - first])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _around(self, first: int, step: int) -> tuple[int, Array]:
        window = self._window  # once, because another thread may replace it
        if window is None or window[0] != first:
            (_, chunk), *_ = self._chunks(first, min(len(self), first + step), step)
            self._window = window = first, chunk
        return window

    def _chunks(self, start: int, stop: int, rows: int) -> Chunks:
        """Chunks made of what `_read` gives, in the thread that asks."""
        if start == stop:
            return
        at, filled = start, 0
        chunk = self._empty(min(rows, stop - at))
        for piece in self._read(start, stop):
            used = 0
            while used < len(piece) and at < stop:
                count = min(len(piece) - used, len(chunk) - filled)
                with np.errstate(over="ignore", invalid="ignore"):  # the check below speaks of it
                    chunk[filled : filled + count] = piece[used : used + count]
                used, filled = used + count, filled + count
                if filled == len(chunk):
                    self._check(at, chunk)
                    yield slice(at, at + filled), chunk
                    at, filled = at + filled, 0
                    chunk = self._empty(min(rows, stop - at))
            if at == stop:
                return
        raise ValueError(
            f"{self.where} ended after {at + filled} rows of {len(self)}: it has changed since it was opened"
        )

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, self.shape[1]), dtype=self.dtype)

    def _check(self, start: int, chunk: Array) -> None:
        if self.keeps_missing or np.isfinite(chunk).all():
            return
        row, column = np.argwhere(~np.isfinite(chunk))[0]
        name = f"column {self.names[column]!r}" if self.names else f"column {column}"
        raise ValueError(
            f"{self.where}: row {start + row}, {name} is {chunk[row, column]} as {self.dtype}: drop or impute such "
            "rows first, or read numbers too large for float32 with dtype=np.float64"
        )


class View(Source):
    """Rows of another source, in its type or another; errors still name the rows of the file."""

    def __init__(self, parent: Source, start: int, stop: int, dtype: Any):
        super().__init__(parent.where, (stop - start, parent.shape[1]), dtype, parent.names)
        self.parent, self.start = parent, start

    def chunk_rows(self, budget: int | None = None) -> int:
        return self.parent.chunk_rows(budget)

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        return (chunk for _, chunk in self._chunks(start, stop, self.chunk_rows()))

    def _chunks(self, start: int, stop: int, rows: int) -> Chunks:
        for some, chunk in self.parent._chunks(self.start + start, self.start + stop, rows):
            yield slice(some.start - self.start, some.stop - self.start), chunk.astype(self.dtype, copy=False)

    def rows(self, start: int, stop: int) -> Array:
        return self.parent.rows(self.start + start, self.start + stop).astype(self.dtype, copy=False)

    def take(self, indices: Any) -> Array:
        return self.parent.take(self.start + self._checked_indices(indices)).astype(self.dtype, copy=False)

    def spread(self, count: int) -> Array:
        whole = self.start == 0 and len(self) == len(self.parent)
        return self.parent.spread(count) if whole else super().spread(count)


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    checked: np.dtype[Any] = np.dtype(dtype)
    if checked not in (np.float32, np.float64):
        raise ValueError(f"dtype must be numpy.float32 or numpy.float64, got {dtype!r}")
    return checked


def refuse_text(where: str, others: Mapping[Any, Any]) -> None:
    """Raise an error if there are features that are no numbers, with what each of them holds."""
    if not others:
        return
    held = [f"column {name!r} holds {kind}" for name, kind in others.items()]
    more = [f"{len(held) - NAMED} others hold no numbers either"] if len(held) > NAMED else []
    raise ValueError(
        f"{where}: {', '.join(held[:NAMED] + more)}, and only numbers can be features of what is read in passes: read "
        "the table into memory, with gyrfalcon.tables.read_table or .compute() of Dask, for gyrfalcon.TableModel, "
        "which takes categories and dates; or encode them, or name the other columns in features"
    )
