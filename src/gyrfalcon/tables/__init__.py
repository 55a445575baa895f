"""Tables of mixed columns: what they become, models that take them, and files that hold them."""

from .files import read_table
from .formats import ReadingWarning
from .model import TableModel
from .preprocessor import TablePreprocessor, UnseenWarning
from .scores import scores

__all__ = ["ReadingWarning", "TableModel", "TablePreprocessor", "UnseenWarning", "read_table", "scores"]
