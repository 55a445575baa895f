"""Zarr arrays and groups."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .arrays import PIECE_BYTES, ArraySource
from .groups import arrays_of


def open_zarr(path: Any, columns: Any = None, dtype: Any = np.float32) -> ArraySource:
    """A Zarr array, given by its path or as it is; read in multiples of its chunks."""
    array = _opened(path) if isinstance(path, str | os.PathLike) else path
    where = os.fspath(path) if isinstance(path, str | os.PathLike) else str(array.store_path)
    rows = max(1, int(array.chunks[0]))
    row_bytes = max(1, int(array.shape[-1]) * array.dtype.itemsize)
    return ArraySource(array, columns, dtype, where=where, step=rows * max(1, PIECE_BYTES // (rows * row_bytes)))


def zarr_group(path: str) -> dict[str, Any] | None:
    """The arrays of a Zarr group; None if the path is that of an array."""
    return arrays_of(_opened(path))


def _opened(path: Any) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("reading Zarr needs the zarr package: pip install 'gyrfalcon[zarr]'") from error
    try:
        return zarr.open(os.fspath(path), mode="r")
    except Exception as error:  # it has many ways to say that something is not there or damaged
        raise ValueError(f"{path} cannot be read as a Zarr array: {error}") from error
