"""Forecasting: series with gaps, direct forecasts for several horizons, and backtests without leaks."""

from .diurnal import DiurnalStrength, diurnal_strength
from .forecast import Forecast
from .forecaster import KernelForecaster
from .lags import LaggedSource
from .results import Backtest, Comparison
from .series import Gap, Series, Wind

__all__ = [
    "Backtest",
    "Comparison",
    "DiurnalStrength",
    "Forecast",
    "Gap",
    "KernelForecaster",
    "LaggedSource",
    "Series",
    "Wind",
    "diurnal_strength",
]
