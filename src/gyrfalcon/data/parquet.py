"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .arrow import BATCH_ROWS, ArrowSource

# Measured on 4,000,000 rows of nine columns: with a small buffer a pass takes 0.1 GB however large the row groups are;
# whole column chunks, a memory map or read-ahead by pyarrow take two to four times as much, and threads no less time.
_BUFFER_BYTES = 1 << 16


class ParquetSource(ArrowSource):
    """Columns of a Parquet file, decoded batch by batch whatever the size of its row groups.

    Examples
    --------
    >>> import tempfile, numpy as np, gyrfalcon as gf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = gf.data.write(f"{folder}/squares.parquet", ["x", "y"], [np.array([[1.0, 1.0], [2.0, 4.0]])])
    ...     gf.data.ParquetSource(f"{folder}/squares.parquet", without=["x"]).to_array().tolist()
    [[1.0], [4.0]]
    """

    def __init__(self, path: str, features: Any = None, without: Any = (), dtype: Any = np.float32, where: Any = None):
        super().__init__(path, "Parquet", features, without, dtype, where)

    def _open(self) -> tuple[Any, int]:
        with self._file() as file:
            groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            self._ends = np.cumsum(groups, dtype=np.int64)
            return file.schema_arrow, sum(groups)

    def _file(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.path, memory_map=False, buffer_size=_BUFFER_BYTES, pre_buffer=False)

    def _batches(self, names: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, Any]]:
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right")
        at = int(self._ends[first - 1]) if first else 0
        groups = list(range(first, last + 1))
        with self._file() as file:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(names), use_threads=False):
                if at + batch.num_rows > start:
                    yield at, batch
                at += batch.num_rows
                if at >= stop:
                    return
