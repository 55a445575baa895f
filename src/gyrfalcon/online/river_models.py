"""Recursive models as models of river, which has to be installed: pip install 'gyrfalcon[river]'."""

from __future__ import annotations

import copy
from typing import Any

from .classifier import RecursiveClassifier
from .regressor import RecursiveRegressor

try:
    from river import base
except ImportError:
    base = None

AVAILABLE = base is not None
_Regressor: Any = object if base is None else base.Regressor
_Classifier: Any = object if base is None else base.Classifier


class _Adapter:
    """Keeps the model as it was given, so that river's `clone` starts anew, and learns with a copy.

    Features that a row lacks are zero, as elsewhere in river. Ones that the first row did not have are refused.
    """

    model: Any

    def _begin(self, model: Any) -> None:
        self.model = model
        self._learner = copy.deepcopy(model)
        self._features: list[Any] | None = None

    @property
    def learner(self) -> Any:
        """The model that has learned."""
        return self._learner

    def _row(self, x: dict[Any, Any], *, learning: bool) -> list[float]:
        if self._features is None:
            if not learning:
                return list(x.values())
            self._features = list(x)
        unknown = [name for name in x if name not in self._features] if len(x) > len(self._features) else []
        if unknown:
            raise ValueError(f"the features {unknown[:5]} were not in the first row: give all of them from the start")
        return [x.get(name, 0.0) for name in self._features]

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        self._learner.learn_one(self._row(x, learning=True), y)

    def predict_one(self, x: dict[Any, Any], **options: Any) -> Any:
        return self._learner.predict_one(self._row(x, learning=False))

    def _unit_test_skips(self) -> set[str]:
        return {"check_emerging_features"}


class RiverRegressor(_Adapter, _Regressor):  # type: ignore[misc]
    """A `RecursiveRegressor` for river's pipelines, metrics and evaluation.

    Parameters
    ----------
    model
        The model to learn with; a copy of it learns.

    """

    def __init__(self, model: Any) -> None:
        self._begin(model)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"model": RecursiveRegressor()}


class RiverClassifier(_Adapter, _Classifier):  # type: ignore[misc]
    """A `RecursiveClassifier` for river's pipelines, metrics and evaluation.

    Parameters
    ----------
    model
        The model to learn with; a copy of it learns.

    """

    def __init__(self, model: Any) -> None:
        self._begin(model)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"model": RecursiveClassifier()}

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: dict[Any, Any], **options: Any) -> dict[Any, float]:
        found: dict[Any, float] = self._learner.predict_proba_one(self._row(x, learning=False))
        return found
