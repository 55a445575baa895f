"""Data sets by name."""

from __future__ import annotations

import difflib
import os
import zipfile
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from sklearn import datasets as bundled

from . import readers
from .entry import Entry
from .fetch import DatasetError, download, instructions, placed
from .registry import REGISTRY

Array = np.ndarray[Any, Any]

TEST_SHARE = 0.2  # where the source has no split of its own


class Split(NamedTuple):
    """Training rows and test rows.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> iris = gf.datasets.load("iris", split=True)
    >>> len(iris.X) + len(iris.X_test), len(iris.X) > len(iris.X_test)
    (150, True)
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @classmethod
    def at(cls, X: Array, y: Array, n: int) -> Split:
        """The first n rows for training, the others for the test."""
        return cls(X[:n], y[:n], X[n:], y[n:])


def names(task: str | None = None) -> list[str]:
    """The names of all data sets, or of those for a task.

    Parameters
    ----------
    task : "regression" or "classification", optional

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.datasets.names("regression")[:3]
    ['diabetes', 'flights3m', 'houseelectric']
    """
    if task not in (None, "regression", "classification"):
        raise ValueError(f"task must be 'regression', 'classification' or None, got {task!r}")
    return [name for name, entry in REGISTRY.items() if task in (None, entry.task)]


def describe(name: str) -> Entry:
    """What is known of a data set: task, rows, columns, licence, citation, address, checksum, size.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.datasets.describe("mnist").rows
    70000
    """
    entry = REGISTRY.get(name) if isinstance(name, str) else None
    if entry is None:
        close = difflib.get_close_matches(str(name), REGISTRY, 3)
        guess = f"did you mean {' or '.join(close)}?" if close else "gyrfalcon.datasets.names() lists them"
        raise ValueError(f"there is no data set {name!r}: {guess}")
    return entry


@overload
def load(
    name: str, *, split: Literal[False] = False, cache: str | os.PathLike[str] | None = None, seed: int = 0
) -> tuple[Array, Array]: ...
@overload
def load(name: str, *, split: Literal[True], cache: str | os.PathLike[str] | None = None, seed: int = 0) -> Split: ...
def load(
    name: str, *, split: bool = False, cache: str | os.PathLike[str] | None = None, seed: int = 0
) -> tuple[Array, Array] | Split:
    """The rows and targets of a data set, as they are: nothing is scaled, and labels keep their names.

    It comes with scikit-learn, or from the folder that GYRFALCON_DATA names (name/data.npz), or from the cache, or,
    checked by its SHA-256, from the network.

    Parameters
    ----------
    name : str
        One of `names`.
    split : bool
        Whether to return X, y, X_test, y_test: the test set of the source, or the split numbered `seed` of those that
        came with it, or else a fifth of the rows, drawn at random.
    cache : path, optional
        The folder that downloads are kept in, that of the operating system for caches by default.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> X, y = gf.datasets.load("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))
    >>> gf.datasets.load("digits", split=True).X_test.shape
    (363, 64)
    """
    entry = describe(name)
    arrays = _arrays(entry, cache)
    X, y = arrays["X"], arrays["y"]
    n = len(X)
    if "X_test" in arrays:
        X, y = (np.concatenate([arrays[key], arrays[f"{key}_test"]]) for key in ("X", "y"))
    if X.shape != (entry.rows, entry.columns) or len(y) != entry.rows:
        raise DatasetError(f"{name} has shape {X.shape} and {len(y)} targets: {instructions(entry)}")
    if not split:
        return X, y
    if "X_test" in arrays:
        return Split.at(X, y, n)
    masks = arrays.get("test_mask")
    if masks is not None and not 0 <= seed < masks.shape[1]:
        raise ValueError(f"seed must be from 0 to {masks.shape[1] - 1}, the splits that {name} has, got {seed!r}")
    test = np.random.default_rng(seed).random(n) < TEST_SHARE if masks is None else masks[:, seed]
    return Split(X[~test], y[~test], X[test], y[test])


def _arrays(entry: Entry, cache: str | os.PathLike[str] | None) -> dict[str, Array]:
    if entry.kind == "bundled":
        data = getattr(bundled, f"load_{entry.name}")()
        return {"X": data.data, "y": data.target}
    path = placed(entry)
    if path is not None:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
                arrays = dict(members)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DatasetError(f"{path} is not a whole npz file ({error}): {instructions(entry)}") from error
        if "X" not in arrays and "latlon" in arrays:
            return readers.compact_flights(arrays)
        if not {"X", "y"} <= arrays.keys():
            raise DatasetError(f"{path} has arrays {sorted(arrays)}: {instructions(entry)}")
        return arrays
    if entry.kind == "placed":
        raise DatasetError(f"{entry.name} cannot be downloaded from an address that stays: {instructions(entry)}")
    return readers.READERS[entry.name](download(entry, cache))
