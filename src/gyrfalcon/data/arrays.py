"""Whatever is sliced by rows: arrays, memory maps, and what libraries of arrays on disk give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .source import Array, Source

PIECE_BYTES = 4 << 20


class ArraySource(Source):
    """Rows of anything with a shape of two dimensions that is sliced by rows: arrays, memory maps, Zarr, HDF5.

    Parameters
    ----------
    array : object with `shape`, `dtype` and slices
    columns : sequence of int, optional
        Those that are features; all if not given.
    dtype : numpy.float32 or numpy.float64
    where : str
        What errors call it.
    step : int, optional
        Rows that are read together, at best a multiple of those that are stored together.
    forget : callable, optional
        Called after each read, to give back what the read has left in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.data import ArraySource
    >>> rows = ArraySource(np.arange(12.0).reshape(4, 3), columns=[0, 2])
    >>> rows.shape, rows.rows(1, 3).tolist()
    ((4, 2), [[3.0, 5.0], [6.0, 8.0]])
    """

    def __init__(
        self,
        array: Any,
        columns: Any = None,
        dtype: Any = np.float32,
        *,
        where: str = "array",
        step: int | None = None,
        forget: Callable[[], None] | None = None,
    ):
        if len(array.shape) != 2:
            raise ValueError(f"{where} must have two dimensions (rows are points), got shape {tuple(array.shape)}")
        if (kind := np.asarray(array[:0]).dtype).kind not in "biuf":  # of what slices give: sparse ones are objects
            raise ValueError(f"{where} must hold numbers and be dense, got {kind}: convert it first")
        self._array, self._forget, self.width = array, forget, int(array.shape[1])
        self._columns = None if columns is None else list(columns)
        d = self.width if self._columns is None else len(self._columns)
        super().__init__(where, (int(array.shape[0]), d), dtype)
        row_bytes = max(1, self.width * np.dtype(array.dtype).itemsize)
        self._step = step or max(1, PIECE_BYTES // row_bytes)

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        for first in range(start // self._step * self._step, stop, self._step):
            rows = slice(max(start, first), min(stop, first + self._step))
            piece = np.asarray(self._array[rows])
            yield piece if self._columns is None else piece[:, self._columns]
            if self._forget is not None:
                self._forget()

    def columns(self, wanted: Sequence[int]) -> list[Array]:
        """Some columns, in memory and in the type they are stored in, read in one pass."""
        out = [np.empty(len(self), dtype=self._array.dtype) for _ in wanted]
        for first in range(0, len(self), self._step):
            piece = np.asarray(self._array[first : first + self._step])
            for column, at in zip(out, wanted, strict=True):
                column[first : first + len(piece)] = piece[:, at]
            if self._forget is not None:
                self._forget()
        return out
