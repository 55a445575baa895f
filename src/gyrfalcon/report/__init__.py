"""Reports: one HTML file about how good a model is, where it is wrong, and how it was fitted."""

from .dynamics import write_dynamics_report
from .forecasting import write_forecasting_report
from .write import write_report

__all__ = ["write_dynamics_report", "write_forecasting_report", "write_report"]
