"""Data that need not fit memory, at the door of the estimators: files, sources of rows, chunks, Dask collections."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_n_features

from gyrfalcon import data
from gyrfalcon.data import Source, Table

Array = np.ndarray[Any, Any]

IN_MEMORY = 16 << 20  # bytes of features that are read at once instead


def is_stream(X: Any) -> bool:
    """Whether X is to be opened: a path or several, a function of chunks, a Dask collection, or opened already."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) and "." in os.fspath(path) for path in X)
    return isinstance(X, str | os.PathLike | Source | Table) or callable(X) or hasattr(X, "__dask_graph__")


def opened(X: Any, y: Any, sample_weight: Any, *, target: Any, weight: Any, features: Any) -> tuple[Any, Any, Any]:
    """X, y and sample_weight, the last two from columns of X if those are named; what is no stream, as it came."""
    if not is_stream(X):
        for name, value in (("target", target), ("weight", weight), ("features", features)):
            if value is not None:
                raise ValueError(f"{name}={value!r} names a column of a file or a Dask frame, but X is neither: pass y")
        return X, y, sample_weight
    table = X if isinstance(X, Table) else data.open(X, target=target, weight=weight, features=features)
    if y is not None and table.y is not None:
        raise ValueError("y was given twice: as an argument and in X; leave one of them out")
    if sample_weight is not None and table.weights is not None:
        raise ValueError("sample_weight was given twice: as an argument and in X; leave one of them out")
    if y is None and table.y is None:
        raise ValueError(f"y is missing: name the column to predict, as in fit({table.X.where!r}, target=...)")
    return table.X, table.y if y is None else y, table.weights if sample_weight is None else sample_weight


def source_of(X: Any, known: Array | None) -> Source:
    """The rows of a stream: of a file, the columns that are known, if any are."""
    if isinstance(X, Table):
        X = X.X
    return X if isinstance(X, Source) else data.open(X, features=None if known is None else known.tolist()).X


def read_stream(estimator: BaseEstimator, stream: Any, *, reset: bool) -> Source | Array:
    """Its rows with the features that the estimator knows, in memory if they are few."""
    known = getattr(estimator, "feature_names_in_", None)
    X = source_of(stream, None if reset else known)
    _check_n_features(estimator, np.broadcast_to(np.zeros(1), X.shape), reset=reset)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
        if X.names is not None:
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
    elif known is not None and X.names is not None and list(X.names) != known.tolist():
        raise ValueError(f"{X.where} has the features {list(X.names)}, but the model was fitted with {known.tolist()}")
    return X.to_array() if len(X) * X.shape[1] * X.dtype.itemsize <= IN_MEMORY else X
