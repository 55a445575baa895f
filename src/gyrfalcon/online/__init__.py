"""Learning that never stops: exact least squares on streams, with classes that appear at any time."""

from .classifier import RecursiveClassifier
from .regressor import RecursiveRegressor
from .streams import batches

__all__ = ["RecursiveClassifier", "RecursiveRegressor", "batches"]
