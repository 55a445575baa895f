"""Learning that never stops: exact least squares on streams, with classes that appear at any time."""

from .regressor import RecursiveRegressor
from .streams import batches

__all__ = ["RecursiveRegressor", "batches"]
