"""Tables of mixed columns: what they become, models that take them, and files that hold them."""

from gyrfalcon.encoding.formats import ReadingWarning
from gyrfalcon.encoding.preprocessor import TablePreprocessor, UnseenWarning

from .files import read_table
from .model import TableModel
from .scores import scores

__all__ = ["ReadingWarning", "TableModel", "TablePreprocessor", "UnseenWarning", "read_table", "scores"]
