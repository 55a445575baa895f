"""Reports: one HTML file about how good a model is, where it is wrong, and how it was fitted."""

from .write import write_report

__all__ = ["write_report"]
