"""Streams of batches for recursive models: from files, sources and generators, with checkpoints on the way."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from gyrfalcon import data
from gyrfalcon.checkpoints import Checkpoint, CheckpointError
from gyrfalcon.data import Source, Table
from gyrfalcon.persistence import ModelFileError, build, describe
from gyrfalcon.progress import Bar

Array = np.ndarray[Any, Any]
Batch = tuple[Any, ...]

STAGE = "solver"  # the name of the file in which a stream's state stands


def batches(
    stream: Any, *, target: Any = None, weight: Any = None, rows: int = 1024, dtype: Any = np.float64
) -> Iterator[Batch]:
    """A stream of batches (X, y), or (X, y, weights) where there are weights, in order.

    Parameters
    ----------
    stream : path, Table, (X, y) or iterable of batches
        The path of a file that `gyrfalcon.data.open` reads, what it returned, arrays, or batches as they are.
    target, weight : str or int, optional
        The columns of a file that hold the targets and the weights.
    rows : int
        In each batch of a file or of arrays.
    dtype : numpy.float32 or numpy.float64
        Of features read from files.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X, y = np.arange(10.0).reshape(5, 2), np.arange(5)
    >>> [batch_y.tolist() for _, batch_y in gf.online.batches((X, y), rows=2)]
    [[0, 1], [2, 3], [4]]
    """
    if isinstance(stream, str | os.PathLike) or hasattr(stream, "__dask_graph__"):
        if target is None:
            raise ValueError(f"target is missing: name the column of {stream} that is to be predicted")
        stream = data.open(stream, target=target, weight=weight, dtype=dtype)
    elif target is not None or weight is not None:
        raise ValueError(f"target and weight name columns of files, but the stream is a {type(stream).__name__}")
    if isinstance(stream, Source):
        raise ValueError("a Source has no targets: pass what gyrfalcon.data.open returned, with target=...")
    if isinstance(stream, Table):
        if stream.y is None:
            raise ValueError("the table has no targets: open it with target=...")
        for some, chunk in stream.X.chunks(rows=rows):
            yield (chunk, stream.y[some]) if stream.weights is None else (chunk, stream.y[some], stream.weights[some])
        return
    if isinstance(stream, tuple) and len(stream) in (2, 3) and all(hasattr(part, "__len__") for part in stream):
        count = stream[0].shape[0] if hasattr(stream[0], "shape") else len(stream[0])
        for start in range(0, count, rows):
            yield tuple(_rows(part, slice(start, start + rows)) for part in stream)
        return
    yield from _checked(stream)


class StreamMixin:
    """Adds `fit_stream`."""

    def fit_stream(
        self,
        stream: Any,
        *,
        target: Any = None,
        weight: Any = None,
        rows: int = 1024,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100_000,
        verbose: bool = False,
    ) -> Self:
        """Forget all that was learned, and learn from a stream in one pass.

        With a checkpoint the state is written every so many rows. Called again after the process was killed, with the
        same stream from its beginning, the model skips what it has learned and ends with the same bits.

        Parameters
        ----------
        stream, target, weight, rows
            See `gyrfalcon.online.batches`.
        checkpoint : path of a directory, optional
        every : int
            Rows between two checkpoints.
        verbose : bool
            Show a bar on the terminal.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> def stream():
        ...     random = np.random.default_rng(0)
        ...     for _ in range(100):
        ...         X = random.normal(size=(10, 3))
        ...         yield X, X @ [1.0, 2.0, 3.0]
        >>> model = gf.online.RecursiveRegressor(penalty=1e-6).fit_stream(stream())
        >>> model.coefficients_.round(3)
        array([1., 2., 3.])
        """
        model: Any = self
        kept = None if checkpoint is None else _Kept(model, checkpoint, every)
        done, began = 0, False
        with Bar("learning", verbose=verbose) as bar:
            for place, batch in enumerate(batches(stream, target=target, weight=weight, rows=rows)):
                if place == 0 and kept is not None:
                    done = kept.resume(model)
                    began = done > 0
                if place < done:
                    if place == done - 1 and kept is not None:
                        kept.check(batch)
                    continue
                X, y, *weights = batch
                learn = model.partial_fit if began else model.fit
                learn(X, y, sample_weight=weights[0] if weights else None)
                began = True
                if kept is not None:
                    kept.keep(model, place + 1, batch)
                bar.show(0, f"{model.n_seen_:,} rows", 0)
        if not began:
            raise ValueError("the stream has no batches")
        if kept is not None:
            kept.finish()
        return self


class _Kept:
    """The checkpoint of a stream: the model, how many batches it has learned from, and a digest of the last."""

    def __init__(self, model: Any, directory: str | os.PathLike[str], every: int):
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a positive whole number of rows, got {every!r}")
        parts = {name: repr(value) for name, value in model.get_params(deep=True).items()}
        fingerprint = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in parts.items()}
        self._checkpoint = Checkpoint(directory, fingerprint | {"the estimator": type(model).__name__})
        self._every, self._learned, self._last = every, 0, ""

    def resume(self, model: Any) -> int:
        """Put the model where it stood; returns the number of batches it has learned from."""
        self._checkpoint.begin({})
        kept = self._checkpoint.load(STAGE)
        if kept is None:
            return 0
        facts, arrays = kept
        try:
            restored = build(facts["model"], arrays)
        except (ModelFileError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint cannot be used ({error}): delete it to begin anew") from error
        parameters = model.get_params(deep=False)
        model.__dict__.update({name: value for name, value in vars(restored).items() if name not in parameters})
        self._learned, self._last = int(facts["rows"]), str(facts["last"])
        return int(facts["batches"])

    def check(self, batch: Batch) -> None:
        if _digest(batch) != self._last:
            raise CheckpointError(
                f"checkpoint={os.fspath(self._checkpoint.directory)!r} belongs to another stream: the last batch that "
                "was learned differs; begin the same stream anew, or delete the directory"
            )

    def keep(self, model: Any, batches: int, batch: Batch) -> None:
        if model.n_seen_ - self._learned < self._every:
            return
        description, arrays = describe(model)
        self._learned = model.n_seen_
        facts = {"model": description, "batches": batches, "rows": self._learned, "last": _digest(batch)}
        self._checkpoint.save(STAGE, facts, arrays)

    def finish(self) -> None:
        self._checkpoint.clear()


def _rows(values: Any, some: slice) -> Any:
    return values.iloc[some] if hasattr(values, "iloc") else values[some]


def _checked(stream: Iterable[Any]) -> Iterator[Batch]:
    if not hasattr(stream, "__iter__"):
        raise TypeError(f"a stream must be a path, arrays or an iterable of batches, got {type(stream).__name__}")
    for place, batch in enumerate(stream):
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise ValueError(
                f"batch {place} of the stream must be (X, y) or (X, y, weights), got {type(batch).__name__}"
            )
        yield tuple(batch)


def _digest(batch: Batch) -> str:
    found = hashlib.sha256()
    for part in batch:
        values = np.ascontiguousarray(part.toarray() if hasattr(part, "toarray") else np.asarray(part))
        found.update(f"{values.shape} {values.dtype}".encode())
        found.update(repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes())
    return found.hexdigest()
