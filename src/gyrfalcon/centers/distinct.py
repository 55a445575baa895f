"""Equal rows, found by sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.data import Source

from .rows import Array, eligible, on_host, take


def distinct(X: AnyPoints, weights: Array | None = None) -> tuple[AnyPoints, Array]:
    """The distinct rows of positive weight in lexicographic order, and for each row of X which of them it is.

    Rows of no weight are -1. The distinct rows do not depend on the order of the rows of X.

    Parameters
    ----------
    X : array, tensor or CSR of shape (n, d)
    weights : array of shape (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.centers import distinct
    >>> distinct(np.array([[2.0, 0.0], [1.0, 5.0], [2.0, 0.0]]))
    (array([[1., 5.],
           [2., 0.]]), array([1, 0, 1]))
    """
    if isinstance(X, Source):
        raise TypeError(
            "X must be in memory, to be sorted: read it with .to_array(), or some of it with .take(indices)"
        )
    rows, _ = eligible(X, weights)
    if isinstance(X, sparse.csr_array):
        X = _without_zeros(X)
    order, starts = sort_rows(X, rows)
    first = np.zeros(len(order), dtype=np.int64)
    first[starts] = 1
    group = np.full(X.shape[0], -1)
    group[order] = np.cumsum(first) - 1
    chosen = take(X, order[starts])
    return chosen if sparse.issparse(chosen) else chosen + 0.0, group


def without_duplicates(X: AnyPoints) -> AnyPoints:
    """X with the first of equal rows only, in the order given."""
    order, starts = sort_rows(_without_zeros(X) if isinstance(X, sparse.csr_array) else X, np.arange(X.shape[0]))
    return X if len(starts) == X.shape[0] else take(X, np.sort(np.minimum.reduceat(order, starts)))


def sort_rows(X: AnyPoints, rows: Array) -> tuple[Array, Array]:
    """The given rows of X sorted, and the positions at which a run of equal ones starts.

    Column after column, and each among those rows only that are equal so far: one sort for most data.
    """
    width, keys = _sparse_keys(X) if isinstance(X, sparse.csr_array) else _dense_keys(on_host(X))
    order = rows.copy()
    first = np.zeros(len(order), dtype=bool)
    first[:1] = True
    tied = np.arange(len(order))
    run = np.zeros_like(tied)  # where the run of equal rows that a tied one belongs to starts
    for k in range(width):
        columns = keys(order[tied], k)
        by_column = np.lexsort((*columns, run))
        order[tied] = order[tied][by_column]
        new = np.ones(len(tied), dtype=bool)
        new[1:] = run[1:] != run[:-1]
        for column in columns:
            new[1:] |= np.diff(column[by_column]) != 0
        first[tied] |= new
        run = tied[np.maximum.accumulate(np.where(new, np.arange(len(tied)), 0))]
        still = ~(new & np.append(new[1:], True))
        tied, run = tied[still], run[still]
        if len(tied) == 0:
            break
    return order, np.flatnonzero(first)


Keys = Callable[[Array, int], tuple[Array, ...]]


def _dense_keys(X: Array) -> tuple[int, Keys]:
    return X.shape[1], lambda rows, k: (X[rows, k],)


def _sparse_keys(X: Any) -> tuple[int, Keys]:
    """Two numbers for the kth entry of a row, of which the second says most.

    A negative entry makes its row smaller the further left it stands, a positive one larger; a row that has ended
    stands between. That is the order of the dense rows.
    """
    lengths = np.diff(X.indptr)

    def keys(rows: Array, k: int) -> tuple[Array, ...]:
        value = np.zeros(len(rows), dtype=X.dtype)
        place = np.zeros(len(rows), dtype=np.int64)
        has = lengths[rows] > k
        at = X.indptr[rows[has]] + k
        value[has] = X.data[at]
        place[has] = np.where(X.data[at] < 0, -1, 1) * (X.shape[1] - X.indices[at].astype(np.int64))
        return value, place

    return int(lengths.max(initial=0)), keys


def _without_zeros(X: Any) -> Any:
    if (X.data != 0).all():
        return X
    X = X.copy()
    X.eliminate_zeros()
    return X


def merge(Y: Array, weights: Array | None, group: Array, count: int) -> tuple[Array, Array, Array]:
    """Mean targets and summed weights of groups of rows, and the mean square, by output, that the means leave.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.centers import merge
    >>> means, weights, spread = merge(np.array([[1.0], [3.0], [5.0]]), None, np.array([0, 0, 1]), 2)
    >>> means.tolist(), weights.tolist()
    ([[2.0], [5.0]], [2.0, 1.0])
    """
    kept = group >= 0
    Y, group = Y[kept], group[kept]
    w = np.ones(len(Y)) if weights is None else weights[kept]
    summed = np.bincount(group, w, minlength=count)
    means = np.stack([np.bincount(group, w * column, minlength=count) for column in Y.T], 1) / summed[:, None]
    return means, summed, w @ (Y - means[group]) ** 2 / w.sum()


def merge_equal(Y: Array, weights: Array | None, group: Array, count: int) -> tuple[Array, Array] | None:
    """Targets and summed weights of groups of rows, or None if the rows of a group have different targets.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.centers import merge_equal
    >>> merge_equal(np.array([[1.0], [1.0], [5.0]]), None, np.array([0, 0, 1]), 2)[1].tolist()
    [2.0, 1.0]
    >>> merge_equal(np.array([[1.0], [2.0], [5.0]]), None, np.array([0, 0, 1]), 2) is None
    True
    """
    kept = np.flatnonzero(group >= 0)
    group = group[kept]
    first = np.empty(count, dtype=np.intp)
    first[group[::-1]] = kept[::-1]
    if not np.array_equal(Y[kept], Y[first][group]):
        return None
    return Y[first], np.bincount(group, None if weights is None else weights[kept], minlength=count).astype(np.float64)
