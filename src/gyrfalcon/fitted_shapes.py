"""Whether what a fit left in a transformer of scikit-learn fits together, before anything is computed with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing
from sklearn.base import BaseEstimator

# Of each attribute, its dimensions: d features come in, k components go out, q quantiles; () is one number.
Shapes = Mapping[str, tuple[str, ...]]
SHAPES: dict[type[BaseEstimator], Shapes] = {
    preprocessing.StandardScaler: {"mean_": ("d",), "var_": ("d",), "scale_": ("d",)},
    preprocessing.MinMaxScaler: dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), ("d",)),
    preprocessing.MaxAbsScaler: {"scale_": ("d",), "max_abs_": ("d",)},
    preprocessing.RobustScaler: {"center_": ("d",), "scale_": ("d",)},
    preprocessing.QuantileTransformer: {"n_quantiles_": (), "quantiles_": ("q", "d"), "references_": ("q",)},
    preprocessing.Normalizer: {},
    feature_selection.VarianceThreshold: {"variances_": ("d",)},
    decomposition.PCA: {
        "components_": ("k", "d"),
        "explained_variance_": ("k",),
        "explained_variance_ratio_": ("k",),
        "singular_values_": ("k",),
        "mean_": ("d",),
        "n_components_": (),
        "n_samples_": (),
        "noise_variance_": (),
    },
    decomposition.TruncatedSVD: {
        "components_": ("k", "d"),
        "explained_variance_": ("k",),
        "explained_variance_ratio_": ("k",),
        "singular_values_": ("k",),
    },
}
COUNTED = {"n_quantiles_": "q", "n_components_": "k"}
# Where a parameter leaves something out, scikit-learn keeps None.
OPTIONAL = {
    preprocessing.StandardScaler: ("mean_", "var_", "scale_"),
    preprocessing.RobustScaler: ("center_", "scale_"),
}


def check_fitted(step: BaseEstimator) -> int:
    """The number of features that a fitted transformer gives; a ValueError if its attributes do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> scaler = StandardScaler().fit(np.zeros((3, 2)))
    >>> check_fitted(scaler)
    2
    >>> scaler.scale_ = np.ones(5)
    >>> check_fitted(scaler)
    Traceback (most recent call last):
    ValueError: scale_ of a StandardScaler of 2 features must have shape (2,), got (5,)
    """
    kind = type(step)
    sizes = {"d": _count(step, "n_features_in_")}
    for name, dimensions in SHAPES[kind].items():
        value = getattr(step, name, None)
        if value is None:
            if name not in OPTIONAL.get(kind, ()):
                raise ValueError(f"a {kind.__name__} has no {name!r}")
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError(f"{name} of a {kind.__name__} must hold finite numbers")
        if array.ndim != len(dimensions):
            raise ValueError(f"{name} of a {kind.__name__} must have {len(dimensions)} dimensions, got {array.ndim}")
        for dimension, size in zip(dimensions, array.shape, strict=True):
            sizes.setdefault(dimension, size)
        expected = tuple(sizes[dimension] for dimension in dimensions)
        if array.shape != expected:
            features = sizes["d"]
            raise ValueError(
                f"{name} of a {kind.__name__} of {features} features must have shape {expected}, got {array.shape}"
            )
        if name in COUNTED and sizes.setdefault(COUNTED[name], int(array)) != int(array):
            raise ValueError(f"{name} of a {kind.__name__} is {int(array)}, but there are {sizes[COUNTED[name]]}")
    names = getattr(step, "feature_names_in_", None)
    if names is not None and (np.shape(names) != (sizes["d"],) or not all(isinstance(name, str) for name in names)):
        raise ValueError(f"feature_names_in_ of a {kind.__name__} must be {sizes['d']} names")
    if isinstance(step, feature_selection.VarianceThreshold):
        return int(step.get_support().sum())
    return sizes.get("k", sizes["d"])


def _count(step: BaseEstimator, name: str) -> int:
    value = getattr(step, name, None)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} of a {type(step).__name__} must be a positive whole number, got {value!r}")
    return value
