"""HDF5 files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .arrays import ArraySource
from .groups import GroupSource
from .source import Source

SUFFIXES = (".h5", ".hdf5", ".hdf")
_INSIDE = re.compile(r"^(.*\.(?:h5|hdf5|hdf))[/\\]+(.+)$", re.IGNORECASE)


def split(path: str) -> tuple[str, str] | None:
    """The file, and what in it a path such as ``trips.h5/2024/x`` names; None if it names no HDF5 file."""
    if path.lower().endswith(SUFFIXES):
        return path, "/"
    inside = _INSIDE.match(path)
    return None if inside is None or not os.path.isfile(inside[1]) else (inside[1], inside[2])


@dataclass(frozen=True)
class Dataset:
    """A dataset of a file that is open only while it is read, so that others may write to it in between."""

    file: str
    name: str
    shape: tuple[int, ...]
    dtype: Any

    def __getitem__(self, place: Any) -> Any:
        import h5py  # type: ignore[import-untyped]

        with h5py.File(self.file, mode="r") as opened:
            return opened[self.name][place]


def open_hdf5(
    path: str,
    features: Any,
    without: Sequence[Any],
    dtype: Any,
    by_number: Callable[[Callable[[Any], ArraySource], Any, Sequence[Any]], ArraySource],
) -> Source:
    """A dataset, whose columns have numbers that `by_number` checks, or a group, whose datasets are named columns.

    A group that holds one dataset of two dimensions and nothing else is that dataset.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading HDF5 needs the h5py package: pip install 'gyrfalcon[hdf5]'") from error
    file, inside = split(path) or (path, "/")
    try:
        with h5py.File(file, mode="r") as opened:
            held = opened[inside]
            alone = isinstance(held, h5py.Dataset)
            found = [held] if alone else [item for item in held.values() if isinstance(item, h5py.Dataset)]
            datasets = {
                item.name.rpartition("/")[2]: Dataset(file, item.name, item.shape, item.dtype) for item in found
            }
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} cannot be read as HDF5: {error}") from error
    lone = next(iter(datasets.values())) if len(datasets) == 1 else None
    if lone is None or not (alone or len(lone.shape) == 2):
        return GroupSource(datasets, features, without, dtype, path)
    return by_number(lambda columns: ArraySource(lone, columns, dtype, where=path), features, without)
