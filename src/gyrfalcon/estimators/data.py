"""What estimators accept and hand back: NumPy, pandas, polars, PyTorch and SciPy sparse in, the same kind out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight, check_array, column_or_1d, validate_data
from torch import Tensor

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.data import Source
from gyrfalcon.data.points import as_points

from .mixed import about_text, encode, is_mixed, missing_column
from .streams import is_stream, read_stream

Array = np.ndarray[Any, Any]

PLAIN_ROWS = 1 << 16  # rows of an array that are checked here: of more, the price of other checks does not show


def read_points(estimator: BaseEstimator, X: Any, *, reset: bool) -> AnyPoints:
    """X as finite float32 or float64 points, checked as scikit-learn does; tensors stay on their device, and what is
    too large for memory stays where it is. For estimators with `takes_tables`, missing values, categories and dates
    become features, by rules of the fit.
    """
    if not reset and (plain := _plain(estimator, X)) is not None:
        return plain
    takes_tables: bool = getattr(estimator, "takes_tables", False)
    if takes_tables and reset:
        estimator.encoder_ = None
    if takes_tables and estimator.encoder_ is not None and is_stream(X):
        raise ValueError(
            f"X is not in memory, and {type(estimator).__name__} was fitted to a table with missing values, categories "
            "or dates: pass data frames of some rows at a time, such as those of pandas.read_csv(path, chunksize=...)"
        )
    if takes_tables and (estimator.encoder_ is not None or (reset and is_mixed(X))):
        return encode(estimator, X, reset=reset)
    if is_stream(X):
        return read_stream(estimator, X, reset=reset)
    if not isinstance(X, Tensor) or X.ndim != 2 or 0 in X.shape:  # scikit-learn's own words for the last two
        try:
            points = validate_data(estimator, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset)
        except ValueError as error:
            if not takes_tables:
                raise
            if "contains NaN" in str(error) and not isinstance(X, Tensor) and not sparse.issparse(X):
                if reset:
                    return encode(estimator, X, reset=True)
                raise ValueError(_about_gaps(estimator, X)) from None
            if "could not convert string" in str(error):
                raise ValueError(about_text(estimator, f"X holds text: {error}")) from None
            raise
        return sparse.csr_array(points) if sparse.issparse(points) else points
    tensor = X.detach()
    validate_data(estimator, _header(tensor), reset=reset, skip_check_array=True)
    if tensor.layout is torch.strided and tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return as_points(tensor, "X")


def _about_gaps(estimator: BaseEstimator, X: Any) -> str:
    return (
        f"Input X contains NaN{missing_column(X)}, and the rows that {type(estimator).__name__} was fitted to had no "
        "missing values: fit it to rows that have some, or use gyrfalcon.TableModel().fit(table, target), which fills "
        "them in."
    )


def _plain(estimator: BaseEstimator, X: Any) -> Array | None:
    """An array, or a frame with the columns of the fit, in which scikit-learn would find nothing wrong, at a tenth of
    the price of its checks; None if it might."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        pandas = sys.modules.get("pandas")
        known = pandas is not None and type(X) is pandas.DataFrame and len(X) <= PLAIN_ROWS
        X = X.to_numpy() if known and X.columns.tolist() == names.tolist() else None
    found = (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float64, np.float32)
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and 0 < X.shape[0] <= PLAIN_ROWS
        and getattr(estimator, "encoder_", None) is None
        and bool(np.isfinite(X).all())
    )
    return X if found else None


def _header(tensor: Tensor | Source) -> Array:
    """An array of the same shape that takes no memory: for counting features."""
    return np.broadcast_to(np.zeros(1), tuple(tensor.shape))


def _in_numpy(values: Any) -> Any:
    """A tensor as an array, which has no bfloat16; anything else as it is."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype is torch.bfloat16 else values).numpy()


def wants_gradients(X: Any) -> bool:
    """Whether X is a tensor whose gradients someone may ask for."""
    return isinstance(X, Tensor) and X.requires_grad and torch.is_grad_enabled()


def refuse_gradients(estimator: BaseEstimator, X: Any) -> None:
    """Say so where gradients would be lost."""
    if wants_gradients(X):
        name = type(estimator).__name__
        raise ValueError(f"X requires gradients, which {name} does not keep: pass X.detach(), or use torch.no_grad()")


def read_targets(y: Any, *, rows: int) -> Array:
    """Targets of a regression as float64, of shape (n,) or (n, t)."""
    y = _in_numpy(y)
    if y is None:
        raise ValueError("y is missing: this estimator requires y to be passed, but the target y is None")
    try:
        values: Array = check_array(y, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="y")
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"y must hold numbers, {error}: regression has no labels, take a classifier") from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    if values.ndim == 0 or len(values) != rows:
        raise ValueError(f"X has {rows} rows but y has shape {values.shape}: one target per row is needed")
    return values


def read_labels(y: Any, *, rows: int, several: bool = False) -> Array:
    """Class labels, of shape (n,), as they came; if there may be several for each row, also an array of zeros and ones
    of shape (n, t)."""
    y = y.toarray() if sparse.issparse(y) else _in_numpy(y)
    if y is None:
        raise ValueError("y is missing: this estimator requires y to be passed, but the target y is None")
    shape: tuple[int, ...] = getattr(y, "shape", None) or (np.shape(y) if isinstance(y, list | tuple) else ())
    if several and len(shape) == 2 and shape[1] > 1:
        return _read_indicators(y, rows)
    try:
        labels: Array = column_or_1d(y, warn=True)
    except ValueError as error:
        if len(getattr(y, "shape", ())) != 2:
            raise
        raise ValueError(f"{str(error).rstrip('.')}: pass one label for each row") from None
    assert_all_finite(labels, input_name="y")
    if len(labels) != rows:
        raise ValueError(f"X has {rows} rows but y has {len(labels)}: one label per row is needed")
    return labels


def _read_indicators(y: Any, rows: int) -> Array:
    """Which of several labels each row has: zeros and ones of shape (n, t)."""
    indicators: Array = check_array(y, dtype=None, input_name="y")
    if indicators.dtype.kind not in "biuf" or not np.isin(indicators, (0, 1)).all():
        raise ValueError(
            f"y has {indicators.shape[1]} columns and must hold 1 where a row has a label and 0 where it has not: for "
            "several targets with classes of their own, use sklearn.multioutput.MultiOutputClassifier"
        )
    if len(indicators) != rows:
        raise ValueError(f"X has {rows} rows but y has {len(indicators)}: one row of labels is needed for each")
    return indicators


def read_weights(sample_weight: Any, X: AnyPoints) -> Array | None:
    """Sample weights as float64, none of them negative and not all zero; None if all are one."""
    if sample_weight is None:
        return None
    weights: Array = _check_sample_weight(
        _in_numpy(sample_weight),
        _header(X) if isinstance(X, Tensor | Source) else X,
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if not weights.any():
        raise ValueError("sample_weight is all zeros: at least one row must count")
    return None if (weights == 1).all() else weights


def hand_back(values: Array, X: Any, names: list[str], container: str | None) -> Any:
    """Values, one row per row of X, as the kind of X or as the container asked for ("default" is NumPy)."""
    kind = kind_of(X) if container is None else {"default": "numpy"}.get(container, container)
    if kind == "torch":
        return torch.as_tensor(values, device=X.device) if values.dtype.kind in "biuf" else values
    if kind == "pandas":
        import pandas

        index = getattr(X, "index", None)
        if values.ndim == 1:
            return pandas.Series(values, index=index, name=names[0])
        return pandas.DataFrame(values, index=index, columns=names)
    if kind == "polars":
        import polars

        return polars.Series(names[0], values) if values.ndim == 1 else polars.DataFrame(values, schema=names)
    return values


def kind_of(X: Any) -> str:
    if isinstance(X, Tensor):
        return "torch"
    for module in ("pandas", "polars"):
        if module in sys.modules and isinstance(X, sys.modules[module].DataFrame):
            return module
    return "numpy"


def names_of(y: Any, target: Any = None) -> list[str] | None:
    """The names that a series or a frame of targets carries, or those of the columns it was read from."""
    if target is not None:
        return [str(name) for name in ([target] if isinstance(target, str | int) else target)]
    if kind_of(y) != "numpy":
        return [str(name) for name in y.columns] if hasattr(y, "columns") else None
    name = getattr(y, "name", None)
    return None if name is None or name == "" else [str(name)]
