"""Runs: frames in the order of time, in memory or in files, and where one run ends and the next begins."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from gyrfalcon import data as files
from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.data import Source, Table

CHUNK_ROWS = 1 << 15  # frames of runs in memory that are looked at together


class RunWarning(UserWarning):
    """Runs or frames that cannot be used.

    Examples
    --------
    >>> import warnings, numpy as np, gyrfalcon as gf
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = gf.dynamics.Koopman(lag=2, rank=1).fit([np.arange(9.0)[:, None], np.zeros((2, 1))])
    >>> print(caught[0].message)
    1 of 2 runs has no more than lag=2 frames and is left out: it holds no pair
    """


class Frames(NamedTuple):
    """Consecutive frames, the runs they belong to, what acted on them, and which of them are free of NaN.

    `stop` is the number of the frame after the last one, if a pass that begins there has the same blocks.
    """

    states: Array
    runs: Array
    inputs: Array | None
    whole: Array
    stop: int | None = None


class Rows(Protocol):
    """Rows of numbers that are read in order, as a `Source` has them."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[slice, Array]]: ...

    def take(self, indices: Array) -> Array: ...


@dataclass(frozen=True)
class Runs:
    """Frames of runs, one run after the other.

    Parameters
    ----------
    rows : Rows
        States, and after them inputs, of all runs.
    lengths : array of int
        How many frames each run has.
    n_inputs : int
        How many of the columns are inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.dynamics.runs import Runs
    >>> runs = Runs.of([np.zeros((5, 2)), np.ones((3, 2))])
    >>> runs.n_features, sorted(runs.lengths.tolist()), runs.pairs(2)
    (2, [3, 5], 4)
    """

    rows: Rows
    lengths: Array
    n_inputs: int = 0

    @classmethod
    def of(cls, runs: Any, *, trajectory: Any = None, inputs: Any = None) -> Runs:
        """Runs of whatever kind: a list of arrays, one array, a file or a Dask collection.

        Runs in a list are put into an order of their own, which does not depend on the order in which they are given.

        Parameters
        ----------
        runs : sequence of arrays of shape (frames, d), one array, path, Source, Table or Dask collection
        trajectory : str, int or array, optional
            The column that says which run a row of a file belongs to, or a label for each row. Rows of a run follow
            each other.
        inputs : sequence of arrays of shape (frames, p), one array, or names of columns of a file, optional
        """
        if isinstance(runs, str | os.PathLike | Source | Table) or hasattr(runs, "__dask_graph__"):
            return _of_file(runs, trajectory, inputs)
        if not isinstance(runs, list | tuple):
            array = as_run(runs, "runs")
            beside = None if inputs is None else as_run(inputs, "inputs")
            lengths = _lengths(_labels(trajectory, len(array)))
            edges = np.cumsum(lengths)[:-1]
            return cls._in_memory(np.split(array, edges), None if beside is None else np.split(beside, edges))
        if trajectory is not None:
            raise ValueError(
                "trajectory goes with one array or file: a list of runs says already what belongs together"
            )
        if inputs is not None and (not isinstance(inputs, list | tuple) or len(inputs) != len(runs)):
            raise ValueError(f"inputs must be a list of {len(runs)} arrays, one for each run")
        arrays = [as_run(run, f"run {place}") for place, run in enumerate(runs)]
        added = None if inputs is None else [as_run(u, f"inputs of run {place}") for place, u in enumerate(inputs)]
        return cls._in_memory(arrays, added)

    @classmethod
    def _in_memory(cls, arrays: Sequence[Array], inputs: Sequence[Array] | None) -> Runs:
        if not arrays:
            raise ValueError("runs is empty: give at least one run")
        for place, run in enumerate(arrays):
            if run.shape[1] != arrays[0].shape[1]:
                raise ValueError(f"run {place} has {run.shape[1]} features, the first has {arrays[0].shape[1]}")
        parts: list[tuple[Array, ...]] = [(run,) for run in arrays]
        count = 0
        if inputs is not None:
            count = inputs[0].shape[1]
            for place, (run, u) in enumerate(zip(arrays, inputs, strict=True)):
                if u.shape != (len(run), count):
                    raise ValueError(f"inputs of run {place} have shape {u.shape}, expected {(len(run), count)}")
            parts = list(zip(arrays, inputs, strict=True))
        if len(parts) > 1:
            parts = sorted(parts, key=_digest)
        return cls(_Stacked(parts), np.array([len(part[0]) for part in parts], dtype=np.int64), count)

    @property
    def n_features(self) -> int:
        return self.rows.shape[1] - self.n_inputs

    def __len__(self) -> int:
        return len(self.lengths)

    def pairs(self, lag: int) -> int:
        """How many pairs at that lag lie within runs, whole frames or not."""
        return int(np.maximum(self.lengths - lag, 0).sum())

    def check(self, lag: int) -> None:
        """Refuse runs without a pair at the lag, and tell of those that are left out."""
        if (short := int((self.lengths <= lag).sum())) == 0:
            return
        if short == len(self):
            raise ValueError(
                f"lag={lag} is too large: the longest run has {int(self.lengths.max(initial=0))} frames, and no "
                "pair of frames is that far apart"
            )
        many = f"{short:,} of {len(self):,} runs"
        one = "has" if short == 1 else "have"
        verbs = ("is left out: it holds", "are left out: they hold")
        warnings.warn(
            f"{many} {one} no more than lag={lag} frames and {verbs[short > 1]} no pair", RunWarning, stacklevel=4
        )

    def cut(self, pieces: int) -> Runs:
        """The same frames with long runs cut, so that there are at least so many of about the same length, if possible.

        No pair goes across a cut, as none goes from one run to another.
        """
        longest = max(1, -(-int(self.lengths.sum()) // max(1, pieces)))
        lengths: list[int] = []
        for length in self.lengths.tolist():
            count = max(1, -(-length // longest))
            edges = np.linspace(0, length, count + 1).astype(np.int64)
            lengths += np.diff(edges).tolist()
        return replace(self, lengths=np.array(lengths, dtype=np.int64))

    def parts(self, count: int) -> Array:
        """A part from 0 to count - 1 for each run, so that neighbors share one and all have about as many frames."""
        middle = np.cumsum(self.lengths) - self.lengths / 2
        return np.minimum((count * middle / max(1, int(self.lengths.sum()))).astype(np.int64), count - 1)

    def blocks(self, rows: int, first: int = 0) -> Iterator[Frames]:
        """One pass over all frames from one on, at most so many at a time. Frames with NaN come as zeros."""
        ends = np.cumsum(self.lengths)
        for place, chunk in self.rows.chunks(first):
            for start in range(0, len(chunk), rows):
                part = chunk[start : start + rows]
                numbers = np.arange(place.start + start, place.start + start + len(part))
                frames = self._frames(part, np.searchsorted(ends, numbers, side="right"))
                last = start + rows >= len(chunk)
                yield frames._replace(stop=place.stop) if last else frames

    def _frames(self, rows: Array, runs: Array) -> Frames:
        whole = np.asarray(np.isfinite(rows).all(1))
        if not whole.all():
            rows = np.where(whole[:, None], rows, 0)
        d = self.n_features
        return Frames(np.ascontiguousarray(rows[:, :d]), runs, rows[:, d:] if self.n_inputs else None, whole)

    def sample(self, count: int, random: np.random.Generator) -> Array:
        """At most so many whole states, drawn without replacement, in order."""
        total = int(self.lengths.sum())
        rows = (
            np.arange(total) if total <= count else np.sort(random.choice(total, count, replace=False, shuffle=False))
        )
        states = self.rows.take(rows)[:, : self.n_features]
        states = states[np.isfinite(states).all(1)]
        if len(states) == 0:
            raise ValueError("no frame is free of NaN and infinity: there is nothing to learn from")
        return np.ascontiguousarray(states)


class _Stacked:
    """Arrays in memory, each with its columns in one or two parts, as if they were stacked."""

    def __init__(self, parts: Sequence[tuple[Array, ...]]):
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part[0]) for part in parts)])
        types = {array.dtype for part in parts for array in part}
        self.dtype = np.dtype(np.float32) if types == {np.dtype(np.float32)} else np.dtype(np.float64)
        self.shape = int(self._starts[-1]), sum(array.shape[1] for array in parts[0])

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Chunks of about the same size; short runs share one."""
        stop = self.shape[0] if stop is None else stop
        while start < stop:
            end = min(stop, start + CHUNK_ROWS)
            yield slice(start, end), self._between(start, end)
            start = end

    def _between(self, start: int, stop: int) -> Array:
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right") - 1
        pieces = []
        for place in range(first, last + 1):
            rows = slice(max(0, start - self._starts[place]), stop - self._starts[place])
            pieces.append(self._rows(place, rows))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _rows(self, place: int, rows: Any) -> Array:
        found = [array[rows] for array in self._parts[place]]
        joined = found[0] if len(found) == 1 else np.hstack(found)
        return joined.astype(self.dtype, copy=False)

    def take(self, indices: Array) -> Array:
        """Rows in ascending order."""
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        edges = np.searchsorted(indices, self._starts)
        for place in np.flatnonzero(np.diff(edges)):
            rows = slice(edges[place], edges[place + 1])
            out[rows] = self._rows(int(place), indices[rows] - self._starts[place])
        return out


class _Beside:
    """The columns of two sources, side by side."""

    def __init__(self, left: Source, right: Source):
        self._sources = left, right
        self.shape = left.shape[0], left.shape[1] + right.shape[1]

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[slice, Array]]:
        left, right = self._sources
        rows = min(left.chunk_rows(), right.chunk_rows())
        pairs = zip(left.chunks(start, stop, rows), right.chunks(start, stop, rows), strict=True)
        return ((place, np.hstack([one, other])) for (place, one), (_, other) in pairs)

    def take(self, indices: Array) -> Array:
        return np.hstack([source.take(indices) for source in self._sources])


def _of_file(data: Any, trajectory: Any, inputs: Any) -> Runs:
    if isinstance(data, Table):
        if trajectory is not None:
            raise ValueError("a Table has the labels of runs as its target: leave trajectory out")
        source, labels = data.X, data.y
    elif isinstance(data, Source):
        source, labels = data, trajectory
    else:
        named = isinstance(trajectory, str | int)
        added = [] if inputs is None else list(inputs)
        source = files.open(data, drop=[*([trajectory] if named else []), *added], missing="keep").X
        if added:
            beside = files.open(data, features=added, missing="keep").X
            lengths = _column_lengths(data, trajectory) if named else _lengths(_labels(trajectory, len(source)))
            return Runs(_Beside(source, beside), lengths, len(added))
        if named:
            return Runs(source, _column_lengths(data, trajectory))
        labels = trajectory
    if inputs is not None:
        raise ValueError("inputs of a file are names of its columns: give the path, not an opened source")
    return Runs(source, _lengths(_labels(labels, len(source))))


def _column_lengths(data: Any, column: Any) -> Array:
    """Lengths of runs from a column of a file, read in passes if it holds numbers."""
    try:
        source = files.open(data, features=[column], dtype=np.float64).X
    except ValueError:  # text, which is kept in memory
        labels = files.open(data, target=column).y
        assert labels is not None
        return _lengths(labels)
    starts, seen, last = [0], [], None
    for place, chunk in source.chunks():
        values = chunk[:, 0]
        if last is None:
            seen.append(values[0])
        elif values[0] != last:
            starts.append(place.start)
            seen.append(values[0])
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        starts += (place.start + changes).tolist()
        seen += values[changes].tolist()
        last = values[-1]
    _check_labels(seen)
    return np.diff([*starts, len(source)])


def _labels(trajectory: Any, rows: int) -> Array:
    if trajectory is None:
        return np.zeros(rows, dtype=np.int8)
    if isinstance(trajectory, str | int):
        raise ValueError(
            f"trajectory={trajectory!r} names a column of a file: give a label for each of the {rows} rows"
        )
    labels = np.asarray(trajectory)
    if labels.shape != (rows,):
        raise ValueError(f"trajectory must have one label for each of the {rows} rows, got shape {labels.shape}")
    return labels


def _lengths(labels: Array) -> Array:
    """How long the stretches of equal labels are."""
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1])) if len(labels) else np.zeros(0, np.int64)
    _check_labels(labels[starts].tolist())
    return np.diff([*starts, len(labels)])


def _check_labels(found: Sequence[Any]) -> None:
    seen = set()
    for label in found:
        if label in seen:
            raise ValueError(f"run {label!r} has rows in several places: sort the rows by run, and by time within runs")
        seen.add(label)


def as_run(value: Any, name: str) -> Array:
    """Frames of one run as an array, NaN or not."""
    array = as_numpy(value)
    if array.ndim == 1 and array.dtype.kind in "biuf":
        raise ValueError(
            f"{name} must have shape (frames, features), got {array.shape}: use x[:, None] for one feature"
        )
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers of shape (frames, features), got shape {array.shape}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _digest(part: tuple[Array, ...]) -> list[bytes]:
    """A key that depends on the numbers alone: runs in this order are as good as shuffled, and always the same."""
    contents = (np.ascontiguousarray(array).data if array.size else b"" for array in part)
    return [hashlib.blake2b(content, digest_size=16).digest() for content in contents]
