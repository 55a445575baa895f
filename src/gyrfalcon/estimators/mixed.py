"""Rows with missing values, categories and dates: the features that estimators make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.encoding import TablePreprocessor
from gyrfalcon.encoding.columns import Column, as_column, named_columns

# How types of columns of pandas and polars begin when they are printed.
CATEGORIES = ("categor", "enum")
DATES = ("date",)


def is_mixed(X: Any) -> bool:
    """Whether X is a data frame with columns of categories or dates."""
    return any(kind.startswith(CATEGORIES + DATES) for kind in _types(X).values())


def encode(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    """The features of rows, by the rules of the estimator's encoder, which a fit learns."""
    name = type(estimator).__name__
    if isinstance(X, Tensor) or sparse.issparse(X):
        kind = "a tensor" if isinstance(X, Tensor) else "sparse"
        raise ValueError(f"X is {kind}, and {name} was fitted to a table: pass an array or a data frame as in the fit")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    encoder: TablePreprocessor = estimator.encoder_
    if reset:
        categories = [str(column) for column, kind in _types(X).items() if kind.startswith(CATEGORIES)]
        if text := _first(X, lambda column: column.kind == "category" and column.name not in categories):
            raise ValueError(about_text(estimator, f"X holds text in column {text!r}"))
        narrow = getattr(X, "dtype", None) == np.float32
        encoder = TablePreprocessor(categorical=categories, dtype="float32" if narrow else "float64")
        estimator.encoder_ = encoder.fit(X)
    return encoder.transform(X)


def about_text(estimator: BaseEstimator, what: str) -> str:
    """What to do with rows that hold text."""
    return (
        f"{what}, and {type(estimator).__name__} takes numbers, categories and dates. Convert text to categories, with "
        "X[column].astype('category') in pandas; or use gyrfalcon.TableModel().fit(table, target), which takes tables "
        "as they are; or put a gyrfalcon.TablePreprocessor() before the estimator in a pipeline."
    )


def missing_column(X: Any) -> str:
    """Which column of a frame has the first missing value, in words; empty if none is known."""
    first = _first(X, lambda column: bool(column.missing.any()))
    return "" if first is None else f" in column {first!r}"


def _types(X: Any) -> dict[Any, str]:
    """What the columns of a data frame hold; nothing of what is none."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return {}
    return {column: str(kind).lower() for column, kind in zip(X.columns, X.dtypes, strict=True)}


def _first(X: Any, wanted: Callable[[Column], bool]) -> str | None:
    """The name of the first column of a data frame of which something holds."""
    columns = named_columns(X) if _types(X) else {}
    return next((name for name, cells in columns.items() if wanted(as_column(name, cells))), None)
