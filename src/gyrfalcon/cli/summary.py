"""Describe a model in a few facts."""

from __future__ import annotations

from typing import Any

import numpy as np

import gyrfalcon as gf
from gyrfalcon.arrays import Array
from gyrfalcon.estimators.base import KernelEstimator
from gyrfalcon.estimators.target_transform import fitted_to
from gyrfalcon.kernels import Kernel, Mapped
from gyrfalcon.tuning.parameters import as_array

MOST_NUMBERS = 1000  # length scales that are listed


def summary(estimator: KernelEstimator) -> dict[str, Any]:
    """Kernel, penalty, centers and how they were fitted."""
    record = estimator.record_
    facts = {
        "estimator": type(estimator).__name__,
        "kernel": type(estimator.kernel_).__name__,
        "penalty": float(estimator.penalty_),
        "centers": int(estimator.centers_.shape[0]),
        "features": int(estimator.n_features_in_),
        "solver": record.solver,
        "iterations": record.iterations,
        "message": record.message,
    }
    if (words := fitted_to(estimator)) != "y":
        facts["fitted_to"] = words
    if estimator.partition_ is not None:
        facts["leaves"] = estimator.partition_.n_leaves
    if hasattr(estimator, "classes_"):
        facts |= {"loss": estimator._targets.loss.name, "classes": [str(label) for label in estimator.classes_]}
    return facts


def length_scales(kernel: Kernel, names: list[str]) -> dict[str, float]:
    """Length scales by feature, the shortest first, along which the function changes fastest.

    Of several kernels, as in a sum, each feature has the shortest of theirs.
    """
    scales = _scales(kernel)
    if not scales:
        return {}
    values = np.min([np.broadcast_to(scale, len(names)) for scale in scales], axis=0)
    order = np.argsort(values, kind="stable")[:MOST_NUMBERS]
    return {names[place]: float(values[place]) for place in order}


def _scales(kernel: Kernel) -> list[Array]:
    """Those of the features, and not of what features are mapped to."""
    if isinstance(kernel, Mapped):
        return []
    own = getattr(kernel, "length_scale", None)
    return [scale for _, part in kernel.children() for scale in _scales(part)] if own is None else [as_array(own)]


def parts(model: Any) -> tuple[KernelEstimator, list[str], str, str | None]:
    """The estimator, feature names, task and target of a table model or of an estimator."""
    if isinstance(model, gf.TableModel):
        names = model.preprocessor_.get_feature_names_out().tolist()
        return model.estimator_, names, model.task_, model.target_
    if isinstance(model, gf.dynamics.Koopman):
        raise ValueError("the file holds a Koopman model: load it in Python with gyrfalcon.load")
    if isinstance(model, gf.forecasting.KernelForecaster):
        raise ValueError("the file holds a forecaster of a series: load it in Python with gyrfalcon.load")
    if not isinstance(model, KernelEstimator):
        raise ValueError(f"the file holds a {type(model).__name__}, which predicts nothing")
    names = getattr(model, "feature_names_in_", None)
    known = [f"x{j}" for j in range(model.n_features_in_)] if names is None else names.tolist()
    task = "classification" if hasattr(model, "classes_") else "regression"
    return model, known, task, model._target_names[0] if model._target_names else None
