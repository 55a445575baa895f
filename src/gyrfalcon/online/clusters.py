"""Learning where the rows are: one model for each partition of a Dask collection, merged in a tree."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from gyrfalcon.data.dask_source import dask_package, is_dask

from .base import RecursiveEstimator
from .feature_maps import fit_features

Model = TypeVar("Model", bound=RecursiveEstimator)


def fit_partitions(model: Model, X: Any, y: Any = None, *, target: Any = None, weight: Any = None) -> Model:
    """Fit a recursive model to a Dask collection: each partition where it is, then merged two by two.

    The result is that of a fit to all rows, in whatever order they are, because factors merge exactly. The workers send
    one factor each, never rows. Features that are not fitted yet are fitted to the first partition.

    Parameters
    ----------
    model : RecursiveRegressor or RecursiveClassifier
        Without a window or forgetting, which depend on the order of the rows. It is fitted, and returned.
    X : dask.dataframe.DataFrame, or dask.array.Array of shape (n, features)
    y : dask.array.Array of shape (n,) or (n, outputs), optional
        With an array X, in the same chunks of rows.
    target, weight : str, optional
        The columns of a frame that hold the targets and the weights.

    Examples
    --------
    >>> import numpy as np, dask.array as da, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> model = gf.online.RecursiveRegressor()
    >>> model = gf.online.fit_partitions(model, da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100))
    >>> bool(np.allclose(model.coefficients_, gf.online.RecursiveRegressor().fit(X, y).coefficients_, atol=1e-10))
    True
    """
    dask = dask_package()
    _check(model, X, y, target, weight)
    parts = _parts(X, y, target, weight)
    ready = clone(model)
    first = dask.delayed(_read)(parts[0]).compute()
    if model.features is not None:
        ready.features = FrozenEstimator(fit_features(model.features, first[0], first[2]))
    learned = [dask.delayed(_learned)(ready, part) for part in parts]
    while len(learned) > 1:
        pairs = [learned[place : place + 2] for place in range(0, len(learned), 2)]
        learned = [dask.delayed(_merged)(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    found = learned[0].compute()
    if found is None:
        raise ValueError("X has no rows")
    given = model.get_params(deep=False)
    model.__dict__.update({name: value for name, value in vars(found).items() if name not in given})
    if isinstance(model.features_, FrozenEstimator):
        model.features_ = model.features_.estimator
    return model


def _check(model: Any, X: Any, y: Any, target: Any, weight: Any) -> None:
    if not isinstance(model, RecursiveEstimator):
        raise TypeError(f"model must be a recursive model, got {type(model).__name__}")
    model._check_parameters()
    if model.window is not None or model.forgetting != 1.0:
        raise ValueError(
            "window and forgetting depend on the order of rows, which partitions do not keep: leave them out"
        )
    if not is_dask(X):
        raise TypeError(f"X must be a Dask collection, got {type(X).__name__}: use fit or fit_stream")
    frame = hasattr(X, "columns")
    if frame and (target is None or y is not None):
        raise ValueError("target is missing: name the column of the frame that is to be predicted, and leave y out")
    if not frame and (y is None or target is not None or weight is not None):
        raise ValueError("an array X needs y, an array with the same chunks; target and weight name columns of frames")


def _parts(X: Any, y: Any, target: Any, weight: Any) -> list[tuple[Any, ...]]:
    """What each task reads: a block of X and one of y, or a partition with the names of its columns."""
    if hasattr(X, "columns"):
        return [(part, target, weight) for part in X.to_delayed()]
    X = X.rechunk({1: -1})
    blocks, targets = X.to_delayed()[:, 0], y.to_delayed().reshape(len(y.chunks[0]), -1)
    if len(blocks) != len(targets) or targets.shape[1] != 1 or X.chunks[0] != y.chunks[0]:
        raise ValueError(f"X and y must have the same chunks of rows, got {X.chunks[0]} and {y.chunks}")
    return list(zip(blocks, targets[:, 0], strict=True))


def _read(part: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Rows, targets and weights of a partition."""
    if len(part) == 2:
        return *part, None
    frame, target, weight = part
    names = [name for name in frame.columns if name not in (target, weight)]
    return frame[names], frame[target], None if weight is None else np.asarray(frame[weight], dtype=np.float64)


def _learned(model: Model, part: tuple[Any, ...]) -> Model | None:
    X, y, weights = _read(part)
    return clone(model)._learn(X, y, weights, reset=True) if len(X) else None


def _merged(one: Any, two: Any) -> Any:
    return two if one is None else one if two is None else one.merge(two)
