"""Opening data of any kind: features that stay on disk, targets and weights in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import csv_file, hdf5
from .arrays import ArraySource
from .chunked import ChunkedSource
from .dask_source import DaskSource, is_dask
from .feather import FeatherSource
from .groups import GroupSource, arrays_of
from .many import files_of, join
from .npy import open_npy, pages_of
from .parquet import ParquetSource
from .source import Array, Source
from .zarr_array import open_zarr, zarr_group

_ENDINGS = (".parquet", ".pq", ".feather", ".arrow", ".ipc", ".npy", *csv_file.SUFFIXES, *hdf5.SUFFIXES)
_SUFFIXES = ".parquet, .pq, .feather, .arrow, .ipc, .npy, .zarr, .h5, .hdf5, .csv, .tsv"


@dataclass(frozen=True)
class Table:
    """Features that are read in passes, and what there is of targets and weights, in memory.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> table = gf.data.open(np.arange(12.0).reshape(4, 3), target=2)
    >>> table.X.shape, table.y.tolist(), table.weights
    ((4, 2), [2.0, 5.0, 8.0, 11.0], None)
    """

    X: Source
    y: Array | None = None
    weights: Array | None = None


def open(
    data: Any,
    *,
    target: Any = None,
    weight: Any = None,
    features: Any = None,
    drop: Sequence[Any] = (),
    dtype: Any = np.float32,
    cache: str | os.PathLike[str] | None = None,
    missing: str = "error",
) -> Table:
    """Open a file, an array on disk, a Dask collection or a collection of chunks, however large.

    Features are read anew in every pass, or stay with the workers of a Dask cluster. Targets and weights are read once
    and kept in memory: that is one number per row and output.

    Parameters
    ----------
    data : path, array or chunks
        The path of a Parquet, Feather (Arrow IPC), .npy, Zarr, HDF5 or CSV file; a list of such paths, a pattern such
        as ``trips/*.parquet``, or a folder of files of one kind, whose rows follow each other; anything with a shape
        that is sliced by rows (memory map, Zarr array, HDF5 dataset); a collection of chunks or a function that returns
        an iterator of them, each X, (X, y) or (X, y, weights); a Dask array or data frame. A CSV file is converted to
        Parquet once. Arrays of a Zarr or HDF5 group are columns by name, see `GroupSource`, and ``trips.h5/taxis`` is
        the group or array ``taxis`` in a file. Addresses are copied first, by `remote`.
    target : str or int, or several, optional
        The columns to predict, by name, or by number where columns have none. They may hold text.
    weight : str or int, optional
        The column of the weights of rows.
    features : sequence of str or int, optional
        The columns to predict from; all others if not given.
    drop : sequence of str or int
        Columns that are to be left out, where `features` are not given.
    dtype : numpy.float32 or numpy.float64
        Of features, weights and those targets that are not whole numbers or text.
    cache : path, optional
        The folder for the Parquet file that a CSV file is converted to; its own if not given.
    missing : "error" or "keep"
        What NaN and infinity among the features are: an error when they are read, or left for the reader to see.
        Workers of a Dask cluster always take them for errors.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from gyrfalcon import data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/points.npy", np.arange(12.0).reshape(4, 3))
    ...     table = data.open(f"{folder}/points.npy", target=2)
    >>> table.X.shape, table.y
    ((4, 2), array([ 2.,  5.,  8., 11.], dtype=float32))
    """
    outputs = [] if target is None else [target] if isinstance(target, str | int) else list(target)
    without = [*outputs, *([] if weight is None else [weight])]
    if missing not in ("error", "keep"):
        raise ValueError(f"missing must be 'error' or 'keep', got {missing!r}")
    source = _source(data, features, [*without, *drop], dtype, cache)
    source.keeps_missing = missing == "keep" or source.keeps_missing
    if len(source) == 0:
        raise ValueError(f"{source.where} has no rows")
    if source.shape[1] == 0:
        raise ValueError(f"{source.where} has no columns left for features: name some in features")
    if isinstance(source, ChunkedSource):
        y, weights = source.y, source.weights
    elif not without:
        return Table(source)
    else:
        columns = source.columns(without)  # type: ignore[attr-defined]  # only readers that have it come here
        chosen, rest = columns[: len(outputs)], columns[len(outputs) :]
        y = None if target is None else chosen[0] if isinstance(target, str | int) else np.stack(chosen, 1)
        weights = rest[0] if rest else None
    return Table(source, _in_memory(y, "target", source), _in_memory(weights, "weight", source, number=True))


def _source(data: Any, features: Any, without: Sequence[Any], dtype: Any, cache: Any) -> Source:
    paths = files_of(data, _ENDINGS)
    if paths is not None:
        where = os.fspath(data) if isinstance(data, str | os.PathLike) else f"{paths[0]} and {len(paths) - 1} more"
        return join(paths, lambda path, known: _of_path(path, known, without, dtype, cache), features, where)
    if isinstance(data, str | os.PathLike):
        return _of_path(os.fspath(data), features, without, dtype, cache)
    if is_dask(data):
        return DaskSource(data, features, without, dtype)
    if (arrays := arrays_of(data)) is not None:
        where = str(getattr(data, "name", "group")) or "group"
        return GroupSource(arrays, features, _names(where, without), dtype, where)
    if isinstance(data, Source) or (not hasattr(data, "shape") and (callable(data) or hasattr(data, "__iter__"))):
        if features is not None or without:
            raise ValueError("target, weight and features name columns of files and arrays: chunks come as (X, y)")
        return data if isinstance(data, Source) else ChunkedSource(data, dtype)
    if hasattr(data, "detach"):  # a tensor, whose types are not NumPy's
        data = data.detach().cpu().numpy()
    if not (hasattr(data, "shape") and hasattr(data, "dtype") and hasattr(data, "__getitem__")):
        raise TypeError(f"data must be a path, an array or chunks of rows, got {type(data).__name__}")
    if type(data).__module__.partition(".")[0] == "zarr":
        return _by_number(lambda columns: open_zarr(data, columns, dtype), features, without)
    return _by_number(lambda columns: ArraySource(data, columns, dtype, forget=pages_of(data)), features, without)


def _of_path(path: str, features: Any, without: Sequence[Any], dtype: Any, cache: Any) -> Source:
    if (parts := hdf5.split(path)) is not None and os.path.exists(parts[0]):
        return hdf5.open_hdf5(path, features, without, dtype, _by_number)
    if not os.path.exists(path):
        if "://" in path:
            raise ValueError(
                f"{path} is an address, and only files of this machine are opened: copy it first, with "
                f"gyrfalcon.data.remote({path!r}, cache='folder')"
            )
        raise FileNotFoundError(f"{path} does not exist")
    name = path.lower().rstrip("/\\")
    if name.endswith((".parquet", ".pq")):
        return ParquetSource(path, features, _names(path, without), dtype)
    if name.endswith((".feather", ".arrow", ".ipc")):
        return FeatherSource(path, features, _names(path, without), dtype)
    if name.endswith(csv_file.SUFFIXES):
        return csv_file.open_csv(path, features, _names(path, without), dtype, cache)
    if name.endswith(".npy"):
        return _by_number(lambda columns: open_npy(path, columns, dtype), features, without)
    if name.endswith(".zarr") or os.path.isdir(path):
        group = zarr_group(path)
        if group is not None:
            return GroupSource(group, features, _names(path, without), dtype, path)
        return _by_number(lambda columns: open_zarr(path, columns, dtype), features, without)
    raise ValueError(f"{path} is none of the files that can be read: {_SUFFIXES}")


def _names(path: str, columns: Sequence[Any]) -> list[str]:
    for column in columns:
        if not isinstance(column, str):
            raise ValueError(f"{path} has columns with names, got target or weight {column!r}: give a name")
    return list(columns)


def _by_number(make: Any, features: Any, without: Sequence[Any]) -> ArraySource:
    """The source of the columns that are left when those without names have been checked."""
    whole: ArraySource = make(None)
    if features is None and not without:
        return whole
    for column in (*without, *(() if features is None else features)):
        if not isinstance(column, int) or not 0 <= column < whole.width:
            raise ValueError(f"{whole.where} has no column {column!r}: it has columns 0 to {whole.width - 1}")
    left = [j for j in range(whole.width) if j not in without] if features is None else list(features)
    source: ArraySource = make(left)
    return source


def _in_memory(values: Array | None, name: str, source: Source, number: bool = False) -> Array | None:
    """Targets or weights as they are kept: fractions in the type of the features, whole numbers and text unchanged."""
    if values is None:
        return None
    if number and values.dtype.kind not in "biuf":
        raise ValueError(f"{source.where}: the {name} must hold numbers, got {values.dtype}")
    if values.dtype.kind == "f" or number:
        values = values.astype(source.dtype, copy=False)
        if not (finite := np.isfinite(values)).all():
            row = int(np.argwhere(~finite)[0][0])
            raise ValueError(f"{source.where}: row {row}, the {name} is {values[row]}: drop or impute such rows first")
    return values
