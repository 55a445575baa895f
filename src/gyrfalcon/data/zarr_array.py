"""Zarr arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .arrays import PIECE_BYTES, ArraySource


def open_zarr(path: Any, columns: Any = None, dtype: Any = np.float32) -> ArraySource:
    """A Zarr array, given by its path or as it is; read in multiples of its chunks."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("reading Zarr needs the zarr package: pip install 'gyrfalcon[zarr]'") from error
    array = path
    if isinstance(path, str | os.PathLike):
        try:
            array = zarr.open(os.fspath(path), mode="r")
        except Exception as error:  # it has many ways to say that something is not there or damaged
            raise ValueError(f"{path} cannot be read as a Zarr array: {error}") from error
    if not isinstance(array, zarr.Array):
        raise ValueError(f"{path} is a Zarr group: give the path of one of its arrays, {sorted(array.keys())}")
    where = os.fspath(path) if isinstance(path, str | os.PathLike) else str(array.store_path)
    rows = max(1, int(array.chunks[0]))
    row_bytes = max(1, int(array.shape[-1]) * array.dtype.itemsize)
    return ArraySource(array, columns, dtype, where=where, step=rows * max(1, PIECE_BYTES // (rows * row_bytes)))
