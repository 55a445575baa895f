"""Rows that a program makes: any collection of chunks, or a function that returns an iterator of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .source import Array, Source

_PARTS = ("X", "y", "weights")


class ChunkedSource(Source):
    """Chunks of rows that can be gone through again and again, because every product is a pass.

    A chunk is an array of shape (rows, d), or a tuple of one with targets and, if need be, weights. A first pass counts
    the rows and keeps targets and weights, as `y` and `weights`.

    Parameters
    ----------
    chunks : iterable, or function without arguments that returns an iterator
    dtype : numpy.float32 or numpy.float64

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import data
    >>> def chunks():
    ...     for start in range(0, 6, 2):
    ...         X = np.arange(start, start + 2)[:, None]
    ...         yield X, X[:, 0] ** 2
    >>> table = data.open(chunks)
    >>> table.X.shape, table.y
    ((6, 1), array([ 0,  1,  4,  9, 16, 25]))
    """

    def __init__(self, chunks: Iterable[Any] | Callable[[], Iterator[Any]], dtype: Any = np.float32):
        if not callable(chunks) and iter(chunks) is chunks:
            raise ValueError(
                f"{type(chunks).__name__} can be gone through only once, but every product is a pass: give the "
                "function that makes it, or a list of chunks"
            )
        self._chunks_of = chunks
        rows, features, kept = 0, 0, ([], [])  # type: tuple[int, int, tuple[list[Array], list[Array]]]
        for number, chunk in enumerate(self._passing()):
            X, *rest = parts = _parts(chunk, number)
            if number and X.shape[1] != features:
                raise ValueError(f"chunk {number} has {X.shape[1]} features but those before it have {features}")
            if number and len(rest) != (count := sum(bool(part) for part in kept)):
                raise ValueError(f"chunk {number} has {len(parts)} parts but those before it have {count + 1}")
            rows, features = rows + len(X), X.shape[1]
            for part, values in zip(kept, rest, strict=False):
                part.append(values)
        super().__init__("chunks", (rows, features), dtype)
        self.y, self.weights = (np.concatenate(part) if part else None for part in kept)

    def _passing(self) -> Iterator[Any]:
        return iter(self._chunks_of() if callable(self._chunks_of) else self._chunks_of)

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        at = 0
        for number, chunk in enumerate(self._passing()):
            X = _parts(chunk, number)[0]
            if at + len(X) > start:
                yield X[max(0, start - at) :]
            at += len(X)


def _parts(chunk: Any, number: int) -> list[Array]:
    given = chunk if isinstance(chunk, tuple) else (chunk,)
    if not 1 <= len(given) <= len(_PARTS):
        raise ValueError(f"chunk {number} must be X, (X, y) or (X, y, weights), got a tuple of {len(given)}")
    parts = [np.asarray(part) for part in given]
    if parts[0].ndim != 2 or parts[0].dtype.kind not in "biuf":
        raise ValueError(
            f"chunk {number}: X must be numbers in two dimensions, got {parts[0].dtype} of shape {parts[0].shape}"
        )
    for name, part in zip(_PARTS, parts, strict=False):
        if len(part) != len(parts[0]):
            raise ValueError(f"chunk {number}: {name} has {len(part)} rows but X has {len(parts[0])}")
    return parts
