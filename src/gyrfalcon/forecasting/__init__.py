"""Forecasting: series with gaps, direct forecasts for several horizons, and backtests without leaks."""

from .diurnal import DiurnalStrength, diurnal_strength
from .forecast import Forecast
from .forecaster import KernelForecaster
from .lags import LaggedSource
from .results import Backtest, Comparison
from .series import Gap, Series, Wind
from .study import Study, study
from .trial import Configuration, Trial

__all__ = [
    "Backtest",
    "Comparison",
    "Configuration",
    "DiurnalStrength",
    "Forecast",
    "Gap",
    "KernelForecaster",
    "LaggedSource",
    "Series",
    "Study",
    "Trial",
    "Wind",
    "diurnal_strength",
    "study",
]
