"""Arrow IPC files, which are also called Feather."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .arrow import BATCH_ROWS, ArrowSource


class FeatherSource(ArrowSource):
    """Columns of an Arrow IPC file through a memory map, whose pages are given back as soon as they have been read.

    Examples
    --------
    >>> import tempfile, numpy as np, gyrfalcon as gf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = gf.data.write(f"{folder}/squares.feather", ["x", "y"], [np.array([[1.0, 1.0], [2.0, 4.0]])])
    ...     gf.data.FeatherSource(f"{folder}/squares.feather", features=["y"]).to_array().tolist()
    [[1.0], [4.0]]
    """

    def __init__(self, path: str, features: Any = None, without: Any = (), dtype: Any = np.float32):
        super().__init__(path, "an Arrow IPC (Feather) file", features, without, dtype)

    def _open(self) -> tuple[Any, int]:
        schema = self._file(None)[0].schema
        reader, _ = self._file([0])  # one column is enough to count, and no other is decompressed
        rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
        self._ends = np.cumsum(rows, dtype=np.int64)
        return schema, sum(rows)

    def _file(self, fields: list[int] | None) -> tuple[Any, mmap.mmap]:
        with open(self.path, "rb") as file:
            try:
                pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # it has no bytes
                raise OSError("the file is empty") from error
        options = self._pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return self._pa.ipc.open_file(self._pa.py_buffer(pages), options=options), pages

    def _batches(self, names: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, Any]]:
        reader, pages = self._file([self.schema.get_field_index(name) for name in names])
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right")
        for i in range(first, last + 1):
            batch, begin = reader.get_batch(i), int(self._ends[i - 1]) if i else 0
            for at in range(max(0, start - begin), batch.num_rows, BATCH_ROWS):
                yield begin + at, batch.slice(at, BATCH_ROWS)
                if hasattr(mmap, "MADV_DONTNEED"):
                    pages.madvise(mmap.MADV_DONTNEED)
