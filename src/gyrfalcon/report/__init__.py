"""Reports: one HTML file that says how good a model is, where it errs, and how it came about."""

from .write import write_report

__all__ = ["write_report"]
