"""Columns of mixed kinds as numbers: how cells are read, and the rules that turn them into features."""

from .formats import ReadingWarning
from .preprocessor import TablePreprocessor, UnseenWarning

__all__ = ["ReadingWarning", "TablePreprocessor", "UnseenWarning"]
