"""Feature maps in front of a recursive model: fitted once, asked for float64 features, kept in files without pickle."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from torch import Tensor

from gyrfalcon.persistence import Savable, build, describe

Array = np.ndarray[Any, Any]

# Transformers of scikit-learn whose fitted attributes are numbers and arrays, which is all that a file holds of them.
PLAIN = {
    "StandardScaler": "preprocessing",
    "MinMaxScaler": "preprocessing",
    "MaxAbsScaler": "preprocessing",
    "RobustScaler": "preprocessing",
    "Normalizer": "preprocessing",
    "PCA": "decomposition",
    "Nystroem": "kernel_approximation",
    "RBFSampler": "kernel_approximation",
}
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_")


def fit_features(features: Any, points: Any, weights: Array | None) -> Any:
    """The transformer as it is if it has been fitted, otherwise a copy fitted to the points."""
    if features is None or _is_fitted(features):
        return features
    if weights is not None and has_fit_parameter(features, "sample_weight"):
        return clone(features).fit(points, sample_weight=weights)
    return clone(features).fit(points)


def takes_sparse(features: Any) -> bool:
    """Whether sparse points may be given to it."""
    return features is None or bool(getattr(get_tags(features).input_tags, "sparse", False))


def transform_features(features: Any, points: Any) -> Array:
    """Features of points as a dense float64 matrix."""
    values = points if features is None else features.transform(points)
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if sparse.issparse(values):
        values = values.toarray()
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) != points.shape[0]:
        raise ValueError(f"features gave an array of shape {values.shape} for {points.shape[0]} rows: one row each")
    return values


def pack_features(features: Any, name: str = "features") -> tuple[Any, dict[str, Array]]:
    """A fitted transformer as what JSON can hold and arrays."""
    if features is None:
        return None, {}
    if isinstance(features, FrozenEstimator):
        return pack_features(features.estimator, name)
    if isinstance(features, Pipeline):
        steps = [(step, *pack_features(part, f"{name}.{step}")) for step, part in features.steps]
        arrays = {key: array for *_, parts in steps for key, array in parts.items()}
        return {"steps": [[step, described] for step, described, _ in steps]}, arrays
    if isinstance(features, Savable):
        described, arrays = describe(features)
        return {"model": described}, {f"{name}.{key}": array for key, array in arrays.items()}
    name_of_kind = type(features).__name__
    if name_of_kind not in PLAIN or _plain(name_of_kind) is not type(features):
        raise ValueError(
            f"features={features!r} cannot be written to a file without pickle: use RandomFeatures or one of "
            f"{sorted(PLAIN)}, or a Pipeline of them"
        )
    return _pack_plain(features, name)


def load_features(described: Any, arrays: dict[str, Array], name: str = "features") -> Any:
    """What `pack_features` packed."""
    if described is None:
        return None
    if "steps" in described:
        return Pipeline(
            [(str(step), load_features(part, arrays, f"{name}.{step}")) for step, part in described["steps"]]
        )
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    if "model" in described:
        return build(described["model"], own)
    features = _plain(described["plain"])()
    features.set_params(**described["parameters"])
    for key, value in {**described["numbers"], **own}.items():
        if not ATTRIBUTE.fullmatch(key):
            raise ValueError(f"{key!r} is no fitted attribute")
        setattr(features, key, value)
    return features


def _pack_plain(features: Any, name: str) -> tuple[Any, dict[str, Array]]:
    parameters = {}
    for key, value in features.get_params(deep=False).items():
        value = value.item() if isinstance(value, np.generic) else list(value) if isinstance(value, tuple) else value
        if not (value is None or isinstance(value, bool | int | float | str | list)):
            raise ValueError(f"{key}={value!r} of {type(features).__name__} cannot be written to a file")
        parameters[key] = tuple(value) if isinstance(value, list) else value
    arrays, numbers = {}, {}
    for key, value in vars(features).items():
        if not ATTRIBUTE.fullmatch(key) or value is None:
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[f"{name}.{key}"] = value
        elif isinstance(value, bool | int | float | str | np.generic):
            numbers[key] = value.item() if isinstance(value, np.generic) else value
    return {"plain": type(features).__name__, "parameters": parameters, "numbers": numbers}, arrays


def _plain(kind: str) -> Any:
    """The class of that name, imported when it is needed: some take long."""
    return getattr(import_module(f"sklearn.{PLAIN[kind]}"), kind)


def _is_fitted(features: Any) -> bool:
    try:
        check_is_fitted(features)
    except NotFittedError:
        return False
    return True
