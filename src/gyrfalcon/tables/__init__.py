"""Tables of mixed columns: what they become, models that take them, and files that hold them."""

from .model import TableModel
from .preprocessor import TablePreprocessor, UnseenWarning
from .scores import scores

__all__ = ["TableModel", "TablePreprocessor", "UnseenWarning", "scores"]
