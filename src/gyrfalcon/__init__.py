"""Gyrfalcon: kernel machines at any scale.

>>> import numpy as np, gyrfalcon as gf
>>> X = np.random.default_rng(0).normal(size=(10_000, 5))
>>> K = gf.KernelMatrix(gf.kernels.Gaussian(length_scale=2.0), X, X[:100])  # 10,000 × 100, never stored
>>> (K @ np.ones(100)).shape
(10000,)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import (
        centers,
        data,
        datasets,
        dynamics,
        fields,
        forecasting,
        kernels,
        losses,
        moments,
        online,
        partition,
        report,
        solvers,
        tables,
        tuning,
        vision,
    )
    from .encoding import TablePreprocessor
    from .estimators import Falkon, KernelClassifier, KernelRegressor, LogisticFalkon
    from .features import RandomFeatures
    from .matrix import KernelMatrix, Plan
    from .partition import Partition
    from .persistence import load
    from .pipelines import save
    from .planning import FitPlan, plan
    from .tables import TableModel

__all__ = [
    "Falkon",
    "FitPlan",
    "KernelClassifier",
    "KernelMatrix",
    "KernelRegressor",
    "LogisticFalkon",
    "Partition",
    "Plan",
    "RandomFeatures",
    "TableModel",
    "TablePreprocessor",
    "__version__",
    "centers",
    "data",
    "datasets",
    "dynamics",
    "fields",
    "forecasting",
    "kernels",
    "load",
    "losses",
    "moments",
    "online",
    "partition",
    "plan",
    "report",
    "save",
    "solvers",
    "tables",
    "tuning",
    "vision",
]

# Where names are that are not rooms; they are imported when they are first asked for, so that importing the library
# costs no more than what is used of it.
_HOMES = {
    "Falkon": "estimators",
    "FitPlan": "planning",
    "KernelClassifier": "estimators",
    "KernelMatrix": "matrix",
    "KernelRegressor": "estimators",
    "LogisticFalkon": "estimators",
    "Partition": "partition",
    "Plan": "matrix",
    "RandomFeatures": "features",
    "TableModel": "tables",
    "TablePreprocessor": "encoding",
    "load": "persistence",
    "plan": "planning",
    "save": "pipelines",
}
_ROOMS = {
    "arrays",
    "centers",
    "checkpoints",
    "data",
    "datasets",
    "dynamics",
    "encoding",
    "estimators",
    "features",
    "fields",
    "forecasting",
    "kernels",
    "linalg",
    "losses",
    "matrix",
    "moments",
    "online",
    "partition",
    "persistence",
    "planning",
    "report",
    "solvers",
    "tables",
    "tuning",
    "vision",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
