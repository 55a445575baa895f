"""Estimators with a scikit-learn face."""

from .base import Interrupted
from .classifier import KernelClassifier
from .falkon import Falkon, LogisticFalkon
from .regressor import KernelRegressor

__all__ = ["Falkon", "Interrupted", "KernelClassifier", "KernelRegressor", "LogisticFalkon"]
