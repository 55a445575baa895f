"""Dask collections: rows that stay where the workers of a cluster have them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .source import CHUNK_ROWS, Array, Source, refuse_text

TASK_BYTES = 64 << 20  # a task on a block of so many bytes, or of CHUNK_ROWS rows, hides what starting it costs


def dask_package() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError("Dask collections need dask and distributed: pip install 'gyrfalcon[dask]'") from error
    return dask


def is_dask(data: Any) -> bool:
    """Whether this is a Dask array, data frame or the like; found out without importing Dask."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


class Part(NamedTuple):
    """Rows start to stop of a block, which is a value that Dask holds."""

    block: Any
    start: int
    stop: int


class DaskSource(Source):
    """Rows of a Dask array or data frame, loaded once into the memory of the workers and kept there.

    The workers cast and check the numbers: NaN or infinity is an error that names the partition. Neighbours are joined
    if they are small; large ones stay as they are, one task of a product each. Only what is asked for comes to the
    client. Blocks are kept with the graph they come from, so Dask makes those of a lost worker again.

    Without a `distributed.Client` everything happens in threads of this process.

    Parameters
    ----------
    collection : dask.array.Array of shape (n, d), or dask.dataframe.DataFrame
        Chunks may be of unknown length.
    features : sequence, optional
        The columns, by name or, for an array, by number; all but those in `without` if not given.
    without : sequence
        Columns that are not features: targets and weights. They come to the client.
    dtype : numpy.float32 or numpy.float64, optional
        That of the collection if not given, float64 if it is neither.

    Examples
    --------
    >>> import dask.array as da
    >>> from gyrfalcon import data
    >>> source = data.DaskSource(da.ones((1000, 3), chunks=(100, 3)))
    >>> source
    DaskSource(1000 × 3, float64, Dask array)
    >>> source.take([999, 0]).shape
    (2, 3)
    """

    def __init__(self, collection: Any, features: Any = None, without: Sequence[Any] = (), dtype: Any = None):
        dask = dask_package()
        where, labels, kinds, partitions = _described(collection)
        wanted = [label for label in labels if label not in without] if features is None else list(features)
        for label in (*without, *wanted):
            if label not in labels:
                raise ValueError(f"{where} has no column {label!r}: it has {_listed(labels)}")
        refuse_text(where, {label: kinds[label] for label in wanted if not _is_number(kinds[label])})
        if dtype is None:
            stored = {kinds[label] for label in wanted} or {getattr(collection, "dtype", None)}
            dtype = np.float32 if stored == {np.dtype(np.float32)} else np.float64
        names = None if isinstance(labels, range) else [str(label) for label in wanted]
        super().__init__(where, (0, len(wanted)), dtype, names)
        self.scheduler = dask.base.get_scheduler(collections=[collection])
        # One graph for features, targets and weights, so that every partition is loaded once.
        columns = None if isinstance(labels, range) and wanted == list(labels) else wanted
        read, pick = dask.delayed(read_block, pure=False), dask.delayed(read_column, pure=False)
        numbered = list(enumerate(partitions))
        kept = self.persist(
            [read(part, columns, self.shape[1], self.dtype, where, number) for number, part in numbered]
            + [pick(part, label, where, number) for label in without for number, part in numbered]
        )
        blocks, others = kept[: len(numbered)], kept[len(numbered) :]
        self.parts = self._joined(blocks, self.compute([dask.delayed(len)(block) for block in blocks]))
        self.shape = sum(part.stop for part in self.parts), len(wanted)
        gathered = self.compute(others)
        self._columns = {
            label: np.concatenate(gathered[i * len(numbered) : (i + 1) * len(numbered)])
            for i, label in enumerate(without)
        }

    def task_rows(self) -> int:
        """Up to how many rows neighbors are joined: near 64 MB and no more than 131,072."""
        return max(1, min(CHUNK_ROWS, TASK_BYTES // max(1, self.shape[1] * self.dtype.itemsize)))

    def _joined(self, blocks: Sequence[Any], counts: Sequence[int]) -> list[Part]:
        groups = grouped(counts, self.task_rows())
        join = dask_package().delayed(_stacked, pure=False)
        small = [join([blocks[i] for i in group]) for group in groups if len(group) > 1]
        joined = iter(self.persist(small))
        return [
            Part(next(joined) if len(group) > 1 else blocks[group[0]], 0, sum(counts[i] for i in group))
            for group in groups
        ]

    # Dask, as it was when the source was made: other threads may not know the client.

    def persist(self, values: Sequence[Any]) -> list[Any]:
        """The same values, held by the workers together with the graph that makes them again."""
        with _vectors_in_graphs():
            return list(dask_package().persist(*values, scheduler=self.scheduler))

    def compute(self, values: Sequence[Any]) -> list[Any]:
        """The values themselves, here."""
        with _vectors_in_graphs():
            return list(dask_package().compute(*values, scheduler=self.scheduler))

    @property
    def client(self) -> Any:
        """The client of the cluster, None without one."""
        return getattr(self.scheduler, "__self__", None)

    # Rows.

    def between(self, start: int, stop: int) -> list[Part]:
        """The parts that rows start to stop lie in, cut to them."""
        found, first = [], 0
        for part in self.parts:
            a, b = max(start - first, 0), min(stop - first, part.stop - part.start)
            if a < b:
                found.append(Part(part.block, part.start + a, part.start + b))
            first += part.stop - part.start
        return found

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        send, step = dask_package().delayed(rows_of, pure=False), self.chunk_rows()
        for part in self.between(start, stop):
            for first in range(part.start, part.stop, step):
                (rows,) = self.compute([send(part.block, first, min(part.stop, first + step), self.dtype)])
                yield rows

    def take(self, indices: Any) -> Array:
        """Those rows, in the order asked for; only they are sent."""
        wanted = self._checked_indices(indices)
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        pick, tasks, places, first = dask_package().delayed(_picked, pure=False), [], [], 0
        for part in self.parts:
            here = np.flatnonzero((wanted >= first) & (wanted < first + part.stop - part.start))
            if len(here):
                places.append(here)
                tasks.append(pick(part.block, wanted[here] - first + part.start, self.dtype))
            first += part.stop - part.start
        for here, rows in zip(places, self.compute(tasks), strict=True):
            out[here] = rows
        return out

    def columns(self, wanted: Sequence[Any]) -> list[Array]:
        """Some of the columns that are not features, in memory and in the type they have in the collection."""
        return [self._columns[label] for label in wanted]

    def __getitem__(self, rows: slice) -> DaskSource:
        named = self._checked_slice(rows)
        return self._with(self.between(named.start, named.stop), self.dtype)

    def astype(self, dtype: Any, copy: bool = False) -> DaskSource:
        """The same numbers in another type: cast in every product, because casting is cheap and memory is not."""
        return self._with(self.parts, dtype)

    def _with(self, parts: list[Part], dtype: Any) -> DaskSource:
        other = copy.copy(self)
        other.parts, other._columns = parts, {}
        Source.__init__(other, self.where, (sum(p.stop - p.start for p in parts), self.shape[1]), dtype, self.names)
        return other


def _described(collection: Any) -> tuple[str, Any, dict[Any, Any], list[Any]]:
    """What errors call it, its columns, their types and its partitions."""
    if not is_dask(collection) or not hasattr(collection, "to_delayed") or not hasattr(collection, "ndim"):
        raise TypeError(f"collection must be a Dask array or data frame, got {type(collection).__name__}")
    where = f"Dask {'dataframe' if hasattr(collection, 'columns') else 'array'}"
    if collection.ndim != 2:
        raise ValueError(f"{where} must have two dimensions (rows are points), got {collection.ndim}")
    if hasattr(collection, "columns"):
        labels = list(collection.columns)
        if repeated := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"{where} has several columns called {repeated[0]!r}: rename them")
        return where, labels, dict(collection.dtypes), list(collection.to_delayed())
    if np.isnan(collection.shape[1]):
        raise ValueError(f"{where} has an unknown number of columns: call its compute_chunk_sizes() first")
    width = range(int(collection.shape[1]))
    rows = collection if collection.numblocks[1] == 1 else collection.rechunk({1: -1})
    return where, width, dict.fromkeys(width, collection.dtype), list(rows.to_delayed()[:, 0])


def _listed(labels: Any) -> str:
    return f"columns 0 to {len(labels) - 1}" if isinstance(labels, range) else ", ".join(map(str, labels))


def _is_number(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "biuf"


def _vectors_in_graphs() -> Any:
    """Vectors travel inside graphs, where workers that have lost them find them again: no reason to warn of size."""
    return dask_package().config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})


def grouped(counts: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of neighbors whose rows are at most so many together, or one that has more; empty ones are left out.

    >>> grouped([3, 0, 4, 9, 2, 2], 8)
    [[0, 2], [3], [4, 5]]
    """
    groups: list[list[int]] = []
    rows = most
    for number, count in enumerate(counts):
        if count == 0:
            continue
        if rows + count > most:
            groups.append([])
            rows = 0
        groups[-1].append(number)
        rows += count
    return groups


# What the workers do.


def read_block(part: Any, columns: Any, width: int, dtype: Any, where: str, number: int) -> Array:
    """The features of a partition, cast and checked."""
    with np.errstate(over="ignore"):  # infinity is complained of below
        if hasattr(part, "columns"):
            block = part[columns].to_numpy(dtype=dtype, na_value=np.nan)
        else:
            block = np.asarray(part)
            if block.dtype.kind not in "biuf" or block.ndim != 2:
                raise ValueError(
                    f"{where}: partition {number} must hold numbers in two dimensions and be dense, got {block.dtype} "
                    f"of shape {block.shape}"
                )
            block = (block if columns is None else block[:, columns]).astype(dtype, copy=False)
    if block.shape[1] != width:
        raise ValueError(f"{where}: partition {number} has {block.shape[1]} columns instead of {width}")
    if not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0]
        label = int(column) if columns is None else columns[column]
        raise ValueError(
            f"{where}: partition {number}, row {row} of it, column {label!r} is {block[row, column]} as {dtype}: drop "
            "or impute such rows first, or read numbers too large for float32 with dtype=np.float64"
        )
    return np.ascontiguousarray(block)


def read_column(part: Any, label: Any, where: str, number: int) -> Array:
    """A column of a partition as it is stored."""
    if not hasattr(part, "columns"):
        return np.array(np.asarray(part)[:, label])
    if part[label].isna().any():
        raise ValueError(
            f"{where}: partition {number}, column {label!r} has rows of no value: drop or impute such rows first"
        )
    return np.asarray(part[label].to_numpy())


def rows_of(block: Array, start: int, stop: int, dtype: Any) -> Array:
    """Rows of a block in the type asked for."""
    return _cast(block[start:stop], dtype)


def _picked(block: Array, rows: Array, dtype: Any) -> Array:
    return _cast(block[rows], dtype)


def _cast(rows: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        cast = rows.astype(dtype, copy=False)
    if cast.dtype.itemsize < rows.dtype.itemsize and not np.isfinite(cast).all():
        raise ValueError(f"X holds numbers too large for {np.dtype(dtype)}: leave them in {rows.dtype}")
    return cast


def _stacked(blocks: Sequence[Array]) -> Array:
    return np.concatenate(blocks)
