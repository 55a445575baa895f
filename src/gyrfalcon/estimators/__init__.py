"""Estimators that follow the conventions of scikit-learn."""

from .classifier import KernelClassifier
from .falkon import Falkon, LogisticFalkon
from .interrupts import Interrupted
from .regressor import KernelRegressor

__all__ = ["Falkon", "Interrupted", "KernelClassifier", "KernelRegressor", "LogisticFalkon"]
