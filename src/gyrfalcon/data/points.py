"""Points: rows of numbers that were checked once and are shared from then on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import Array, as_matrix, device_of, in_double, to_tensor, torch_dtype

from .dask_source import DaskSource, is_dask
from .source import Source

_COUNTED_ROWS = 1000  # by which features in common are estimated


def as_points(value: Any, name: str) -> Any:
    """A finite float32 or float64 matrix: an array, a tensor, CSR or a Source; see `arrays.as_matrix`.

    A source of rows passes as it is: it checks its chunks whenever they are read. A Dask collection becomes one.

    Examples
    --------
    >>> from gyrfalcon.data import as_points
    >>> as_points([[1, 2], [3, 4]], "X")
    array([[1., 2.],
           [3., 4.]])
    """
    if is_dask(value):
        return DaskSource(value)
    return value if isinstance(value, Source) else as_matrix(value, name)


class Points:
    """Rows that are known to be finite numbers of one type, wherever they are: nothing checks them again.

    `Points.check` looks at every entry; the constructor trusts its caller.

    Parameters
    ----------
    values : array, tensor, CSR or Source of shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.data import Points
    >>> points = Points.check([[1, 2], [3, 4], [5, 6]], "X")
    >>> points.shape, points.rows(slice(1, 3)).values.tolist(), points.rows(np.array([2, 0])).values.tolist()
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]], [[5.0, 6.0], [1.0, 2.0]])
    """

    __slots__ = ("device", "dtype", "shape", "sparse", "streamed", "values")

    def __init__(self, values: Any):
        self.values = values
        self.shape: tuple[int, int] = (int(values.shape[0]), int(values.shape[1]))
        self.dtype: torch.dtype = torch_dtype(values)
        self.device: torch.device = device_of(values)
        self.sparse = isinstance(values, sparse.csr_array)
        self.streamed = isinstance(values, Source)

    @classmethod
    def check(cls, value: Any, name: str) -> Points:
        """The points, if they have passed here before, or a complaint that names them."""
        return value if isinstance(value, Points) else cls(as_points(value, name))

    @property
    def distributed(self) -> bool:
        """Whether the rows are with Dask workers."""
        return isinstance(self.values, DaskSource)

    @property
    def features(self) -> float:
        """How many numbers are stored for a row, on average: all of them, or those of CSR that are not zero."""
        return float(self.values.nnz / max(1, self.shape[0])) if self.sparse else float(self.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes that the rows would take in memory in float64."""
        return int(8 * self.shape[0] * (2 * self.features if self.sparse else self.shape[1]))

    def rows(self, index: slice | Array) -> Points:
        """Those rows: a view of a slice, a copy of rows that are named one by one; few rows of a source are read."""
        values = self.values
        if isinstance(values, Source):
            if isinstance(index, slice):
                start, stop, _ = index.indices(self.shape[0])
                near = stop - start <= values.chunk_rows()
                return Points(values.rows(start, stop) if near else values[index])
            return Points(self._gathered(values, index))
        if isinstance(values, Tensor) and not isinstance(index, slice):
            return Points(values[torch.from_numpy(index).to(values.device)])
        return Points(values[index])

    @staticmethod
    def _gathered(source: Source, index: Array) -> Array:
        """Rows of a source from the window around them, where they lie close together, or in one pass."""
        if len(index) == 0:
            return source.rows(0, 0)
        first, last = int(index.min()), int(index.max())
        near = last - first < source.chunk_rows()
        return source.rows(first, last + 1)[index - first] if near else source.take(index)

    def spread(self, count: int) -> Array:
        """The numbers of at most so many rows, evenly spaced; of a source, among those that it keeps, if enough are."""
        if isinstance(self.values, Source):
            return self.values.spread(count)
        return np.unique(np.linspace(0, self.shape[0] - 1, count).astype(int))

    def equals(self, other: Points) -> bool:
        """Whether these are the same rows, compared number by number where they are not the same object."""
        if self is other or self.values is other.values:
            return True
        if self.shape != other.shape or self.streamed or other.streamed or self.sparse != other.sparse:
            return False
        if self.sparse:
            return bool((self.values != other.values).nnz == 0)
        return bool((self.values == other.values).all())

    def double(self) -> Points:
        """The same rows in float64."""
        return self if self.dtype == torch.float64 else Points(in_double(self.values))

    def to(self, device: torch.device) -> Points:
        """Dense rows on a device; rows that are not there yet are copied."""
        return self if self.device == device else Points(to_tensor(self.values).to(device))

    def windows(self, rows: int) -> list[slice]:
        """Slices that cover the rows in order: all of them at once, or those of a source that are read together, in
        multiples of `rows`."""
        n = self.shape[0]
        step = max(rows, self.values.chunk_rows() // rows * rows) if self.streamed else max(n, 1)
        return [slice(start, min(n, start + step)) for start in range(0, n, step)]

    def __repr__(self) -> str:
        n, d = self.shape
        return f"Points({n} × {d}, {str(self.dtype).removeprefix('torch.')}, {type(self.values).__name__})"


def variances(points: Points) -> Array:
    """The variance of each feature of dense points in memory, in float64."""
    found: Array = to_tensor(points.values).detach().double().var(0, correction=0).cpu().numpy()
    return np.asarray(found)


def common_features(points: Points, others: Points) -> float:
    """How many features a row of some sparse points and one of others both have, on average over some of the rows."""
    if not others.sparse:
        return points.features
    some = points.values[:: max(1, points.shape[0] // _COUNTED_ROWS)]
    known, counts = np.unique(others.values.indices, return_counts=True)
    if len(known) == 0 or some.nnz == 0:
        return 0.0
    places = np.searchsorted(known, some.indices).clip(max=len(known) - 1)
    both = np.where(known[places] == some.indices, counts[places], 0)
    return float(both.sum() / (some.shape[0] * others.shape[0]))
