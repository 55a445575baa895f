"""Gyrfalcon: kernel machines at any scale.

>>> import numpy as np, gyrfalcon as gf
>>> X = np.random.default_rng(0).normal(size=(10_000, 5))
>>> K = gf.KernelMatrix(gf.kernels.Gaussian(length_scale=2.0), X, X[:100])  # 10,000 × 100, never stored
>>> (K @ np.ones(100)).shape
(10000,)
"""

from . import centers, data, datasets, dynamics, kernels, losses, online, report, solvers, tables, tuning
from .estimators import Falkon, KernelClassifier, KernelRegressor, LogisticFalkon
from .features import RandomFeatures
from .matrix import KernelMatrix, Plan
from .persistence import load
from .planning import FitPlan, plan
from .tables import TableModel, TablePreprocessor

__all__ = [
    "Falkon",
    "FitPlan",
    "KernelClassifier",
    "KernelMatrix",
    "KernelRegressor",
    "LogisticFalkon",
    "Plan",
    "RandomFeatures",
    "TableModel",
    "TablePreprocessor",
    "__version__",
    "centers",
    "data",
    "datasets",
    "dynamics",
    "kernels",
    "load",
    "losses",
    "online",
    "plan",
    "report",
    "solvers",
    "tables",
    "tuning",
]

__version__ = "0.1.0"
