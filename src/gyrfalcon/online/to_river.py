from __future__ import annotations

from typing import Any

from .classifier import RecursiveClassifier
from .regressor import RecursiveRegressor


def to_river(model: RecursiveRegressor | RecursiveClassifier) -> Any:
    """The model as one of river, for its pipelines, metrics and evaluation. A copy of it learns.

    Features that a row lacks count as zero, as elsewhere in river.

    Parameters
    ----------
    model : RecursiveRegressor or RecursiveClassifier
        Fitted or not; `to_river(model).learner` is the copy that learns.

    Examples
    --------
    >>> import pytest, gyrfalcon as gf
    >>> river = pytest.importorskip("river")
    >>> import river.datasets, river.evaluate, river.metrics, river.preprocessing
    >>> model = gf.online.to_river(gf.online.RecursiveRegressor(penalty=1e-9))
    >>> for x, y in (({"a": 1.0}, 2.0), ({"a": 2.0}, 4.0), ({"a": 3.0}, 6.0)):
    ...     model.learn_one(x, y)
    >>> round(model.predict_one({"a": 4.0}), 3)
    8.0
    >>> pipeline = river.preprocessing.StandardScaler() | gf.online.to_river(gf.online.RecursiveClassifier())
    >>> accuracy = river.metrics.Accuracy()
    >>> _ = river.evaluate.progressive_val_score(river.datasets.Phishing(), pipeline, accuracy)
    >>> accuracy.get() > 0.85
    True
    """
    from . import river_models

    if not river_models.AVAILABLE:
        raise ImportError("models of river need river: pip install 'gyrfalcon[river]'")
    if isinstance(model, RecursiveClassifier):
        return river_models.RiverClassifier(model)
    if isinstance(model, RecursiveRegressor):
        return river_models.RiverRegressor(model)
    raise TypeError(f"model must be a RecursiveRegressor or a RecursiveClassifier, got {type(model).__name__}")
