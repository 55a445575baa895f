"""Several arrays with the same rows, as groups of Zarr and HDF5 files hold them, as one table with names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import PIECE_BYTES
from .source import Array, Source


def arrays_of(data: Any) -> dict[str, Any] | None:
    """The arrays of a mapping, or of a Zarr or HDF5 group; None for anything else."""
    if type(data).__module__.partition(".")[0] == "zarr" and hasattr(data, "arrays"):
        return dict(data.arrays())
    return (
        {name: array for name, array in data.items() if hasattr(array, "dtype")} if isinstance(data, Mapping) else None
    )


class GroupSource(Source):
    """Columns of arrays that have the same rows.

    An array of one dimension is a column of its own name, and column j of an array ``x`` of two is ``x[j]``.

    Parameters
    ----------
    arrays : mapping of str to objects with `shape`, `dtype` and slices
        Such as a Zarr or HDF5 group.
    features : sequence of str, optional
        Arrays or columns of them that are features, in this order; all but those in `without` if not given.
    without : sequence of str
        Arrays or columns that are no features: targets and weights.
    dtype : numpy.float32 or numpy.float64
    where : str
        What errors call the group.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.data import GroupSource
    >>> arrays = {"x": np.arange(6.0).reshape(3, 2), "age": np.array([7.0, 8.0, 9.0]), "y": np.zeros(3)}
    >>> rows = GroupSource(arrays, without=["y"])
    >>> rows.names, rows.rows(0, 2).tolist()
    (('age', 'x[0]', 'x[1]'), [[7.0, 0.0, 1.0], [8.0, 2.0, 3.0]])
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        features: Sequence[str] | None = None,
        without: Sequence[str] = (),
        dtype: Any = np.float32,
        where: str = "group",
    ):
        held = {name: arrays[name] for name in sorted(arrays) if len(getattr(arrays[name], "shape", ())) in (1, 2)}
        if not held:
            raise ValueError(f"{where} has no arrays of one or two dimensions: give the path of a group that has some")
        lengths = {name: int(array.shape[0]) for name, array in held.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{where} has arrays with different numbers of rows, {lengths}: give the path of one")
        self._arrays = held
        for name in (*without, *(features or ())):
            self._places(name, where)
        left_out = {place for name in without for place in self._places(name, where)}
        wanted = list(held) if features is None else list(features)
        places = [place for name in wanted for place in self._places(name, where)]
        self._columns = places if features is not None else [place for place in places if place not in left_out]
        for name, _ in self._columns:
            if np.dtype(held[name].dtype).kind not in "biuf":
                raise ValueError(f"{where}: {name!r} must hold numbers, got {held[name].dtype}: name it in drop")
        names = [self._label(place) for place in self._columns]
        super().__init__(where, (next(iter(lengths.values())), len(names)), dtype, names)
        read = {name: held[name] for name, _ in self._columns}
        row_bytes = sum(array.dtype.itemsize * int(np.prod(array.shape[1:])) for array in read.values())
        self._step = max(1, PIECE_BYTES // max(1, row_bytes))

    def _places(self, name: Any, where: str) -> list[tuple[str, int | None]]:
        """The array and the column of a name; all columns of an array for its name."""
        if isinstance(name, str):
            if name in self._arrays:
                shape = self._arrays[name].shape
                return [(name, None)] if len(shape) == 1 else [(name, j) for j in range(int(shape[1]))]
            stem, _, rest = name.rpartition("[")
            column = rest[:-1]
            known = stem in self._arrays and len(self._arrays[stem].shape) == 2
            if known and rest.endswith("]") and column.isdecimal() and int(column) < self._arrays[stem].shape[1]:
                return [(stem, int(column))]
        shapes = ", ".join(f"{key} {tuple(array.shape)}" for key, array in self._arrays.items())
        raise ValueError(f"{where} has no column {name!r}: it has {shapes}; column j of an array x is 'x[j]'")

    @staticmethod
    def _label(place: tuple[str, int | None]) -> str:
        name, column = place
        return name if column is None else f"{name}[{column}]"

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        for first in range(start, stop, self._step):
            rows = slice(first, min(stop, first + self._step))
            read = {name: np.asarray(self._arrays[name][rows]) for name in dict.fromkeys(n for n, _ in self._columns)}
            yield np.stack([read[n] if j is None else read[n][:, j] for n, j in self._columns], axis=1)

    def columns(self, wanted: Sequence[str]) -> list[Array]:
        """Some columns, in memory and in the type they are stored in."""
        found = []
        for name in wanted:
            places = self._places(name, self.where)
            if len(places) != 1:
                labels = [self._label(place) for place in places]
                raise ValueError(f"{self.where}: {name!r} has {len(places)} columns: name one or several of {labels}")
            array, column = places[0]
            values = self._arrays[array][:] if column is None else self._arrays[array][:, column]
            values = np.asarray(values)
            found.append(values.astype(str) if values.dtype.kind in "OS" else values)
        return found
