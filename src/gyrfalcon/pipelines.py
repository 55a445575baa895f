"""Model files of scikit-learn pipelines: steps of scikit-learn by their numbers, models of this library as ever."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import decomposition, feature_selection, preprocessing
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .fitted_shapes import check_fitted
from .persistence import FOREIGN, VERSION, Savable, State, build, compose, describe, write_whole

Array = np.ndarray[Any, Any]

_SEEN = ("n_features_in_", "feature_names_in_")
# Transformers that can be saved, and what a fit leaves in them.
TRANSFORMERS: dict[type[BaseEstimator], tuple[str, ...]] = {
    preprocessing.StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_"),
    preprocessing.MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    preprocessing.MaxAbsScaler: ("scale_", "max_abs_", "n_samples_seen_"),
    preprocessing.RobustScaler: ("center_", "scale_"),
    preprocessing.QuantileTransformer: ("n_quantiles_", "quantiles_", "references_"),
    preprocessing.Normalizer: (),
    feature_selection.VarianceThreshold: ("variances_",),
    decomposition.PCA: (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
        "n_components_",
        "n_samples_",
        "noise_variance_",
    ),
    decomposition.TruncatedSVD: (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
    ),
}
_KINDS = {kind.__name__: kind for kind in TRANSFORMERS}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, or a pipeline that ends in one, to a safetensors file; `gyrfalcon.load` reads it.

    Of scikit-learn, `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`, `RobustScaler`, `QuantileTransformer`,
    `Normalizer`, `VarianceThreshold`, `PCA` and `TruncatedSVD` are saved, with their parameters and what the fit has
    left in them; other steps must be models of this library. Nothing in the file is executed when it is read.

    Parameters
    ----------
    model : a fitted model of this library, or a scikit-learn Pipeline
    path : path
        The file appears when it is complete.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf, tempfile
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> model = make_pipeline(StandardScaler(), gf.KernelRegressor()).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gf.save(model, f"{folder}/model.safetensors")
    ...     again = gf.load(f"{folder}/model.safetensors")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if isinstance(model, Savable):
        model.save(path)
    elif isinstance(model, Pipeline):
        write_whole(Path(path), compose(*_describe_pipeline(model)))
    else:
        raise TypeError(
            f"model must be a model of this library or a scikit-learn Pipeline, got {type(model).__name__}: put it "
            "into a Pipeline, or save it with joblib"
        )


def _describe_pipeline(pipeline: Pipeline) -> State:
    check_is_fitted(pipeline)
    steps: list[dict[str, Any]] = []
    arrays: dict[str, Array] = {}
    for place, (name, step) in enumerate(pipeline.steps):
        if isinstance(step, Savable):
            description, own = describe(step)
        elif step is None or step == "passthrough":
            description, own = {"model": "passthrough"}, {}
        elif type(step) in TRANSFORMERS:
            description, own = _describe_transformer(step)
        else:
            raise TypeError(
                f"step {name!r} of the pipeline is a {type(step).__name__}, which cannot be saved: models of this "
                f"library and {', '.join(sorted(_KINDS))} can"
            )
        steps.append({"name": name, **description})
        arrays |= {f"{place}.{key}": value for key, value in own.items()}
    return {"model": "Pipeline", "version": VERSION, "steps": steps}, arrays


def _describe_transformer(step: BaseEstimator) -> State:
    """Parameters and numbers as JSON, and arrays."""
    facts: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for name in (*TRANSFORMERS[type(step)], *_SEEN):
        if not hasattr(step, name):
            continue
        value = getattr(step, name)
        if isinstance(value, np.ndarray) and value.dtype != object:
            arrays[name] = value
        else:
            facts[name] = np.asarray(value).tolist()
    parameters = {name: _plain(name, value) for name, value in step.get_params(deep=False).items()}
    return {"model": type(step).__name__, "parameters": parameters, "fitted": facts}, arrays


def _plain(name: str, value: Any) -> Any:
    if name == "random_state":
        return value if isinstance(value, int) else None  # which only matters for fitting again
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple) and all(isinstance(one, int | float) for one in value):
        return {"tuple": list(value)}
    raise TypeError(f"{name}={value!r} cannot be saved: give a number, text or a tuple of numbers")


def _build_pipeline(description: Any, arrays: dict[str, Array]) -> Pipeline:
    """The pipeline that `_describe_pipeline` described; a ValueError if its steps do not fit together."""
    steps = []
    width: int | None = None  # of what the step before gives, if that is known
    for place, step in enumerate(description["steps"]):
        own = {key.partition(".")[2]: value for key, value in arrays.items() if key.partition(".")[0] == str(place)}
        kind = step["model"]
        if kind == "passthrough":
            made: Any = "passthrough"
        else:
            made = _build_transformer(step, own) if kind in _KINDS else build(step, own)
            taken = getattr(made, "n_features_in_", None)
            if width is not None and taken is not None and taken != width:
                raise ValueError(f"step {step['name']!r} takes {taken} features, but the one before gives {width}")
            width = check_fitted(made) if kind in _KINDS else None
        steps.append((str(step["name"]), made))
    return Pipeline(steps)


def _build_transformer(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> BaseEstimator:
    kind = _KINDS[description["model"]]
    step = kind()
    parameters = {
        name: tuple(value["tuple"]) if isinstance(value, Mapping) else value
        for name, value in description["parameters"].items()
    }
    step.set_params(**parameters)
    for name, value in (description["fitted"] | dict(arrays)).items():
        if name not in (*TRANSFORMERS[kind], *_SEEN):
            raise ValueError(f"a {kind.__name__} has no {name!r}")
        setattr(step, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
    return step


FOREIGN["Pipeline"] = _build_pipeline
