"""Predictions of Dask collections: a collection too, of which workers make each part where its rows are."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from gyrfalcon.data.dask_source import dask_package


def by_partition(model: Any, X: Any, method: str, **settings: Any) -> Any:
    """What a method of a model makes of the rows of a Dask array or data frame, in partitions as those of X.

    Nothing is computed yet. The model is sent to the workers once. A frame gives a series or a frame with its index,
    and its columns that the model does not know are left out.
    """
    known = getattr(model, "feature_names_in_", None)
    model = copy.copy(model)
    model._output_container = None  # partitions of a frame are those of pandas, and others are arrays
    if hasattr(X, "columns"):
        X = X if known is None else X[[name for name in known if name in X.columns]]
        like = _result(X._meta_nonempty, model, method, settings).iloc[:0]
        return X.map_partitions(_part, _sent(model), method, settings, like, meta=like)
    if not hasattr(X, "map_blocks"):
        raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}")
    X = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
    like = np.asarray(_result(np.zeros((1, *X.shape[1:]), X.dtype), model, method, settings))[:0]
    axes = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], like.shape[1:])}
    return X.map_blocks(_part, _sent(model), method, settings, like, dtype=like.dtype, meta=like, **axes)


def _sent(model: Any) -> Any:
    return dask_package().delayed(model, traverse=False)


def _result(rows: Any, model: Any, method: str, settings: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of made-up rows, whose categories were not in the fit
        return getattr(model, method)(rows, **settings)


def _part(rows: Any, model: Any, method: str, settings: dict[str, Any], empty: Any) -> Any:
    """What workers do."""
    if len(rows) == 0:
        return empty
    made = getattr(model, method)(rows, **settings)
    return made if hasattr(rows, "columns") else np.asarray(made)
