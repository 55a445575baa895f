"""The regression problem that forecasting is: windows of a series and what came after them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gyrfalcon.arrays import Array

from .designs import Design
from .lags import LaggedSource
from .series import Series


@dataclass(frozen=True)
class Problem:
    """What a forecaster makes of any series: origins, rows of features, targets and persistence.

    Parameters
    ----------
    design : Design
    memory : int
    horizons : tuple of int
        In ascending order.
    calendar : tuple of str
    difference : bool
        Whether targets are changes since the origin.
    """

    design: Design
    memory: int
    horizons: tuple[int, ...]
    calendar: tuple[str, ...] = ()
    difference: bool = True

    @property
    def reach(self) -> int:
        """How many stamps the window of a row has, inputs and targets together."""
        return self.memory + self.horizons[-1]

    def origins(self, series: Series, *, horizon: int = 0) -> Array:
        """Rows from which there is a forecast, and, so many steps later, no gap."""
        rows = series.windows(self.memory, horizon, inputs=self.design.inputs)
        now = series.columns((self.design.target, *self.design.outputs))[rows]
        return np.asarray(rows[np.isfinite(now).all(1)])

    def training(self, series: Series) -> Array:
        """Origins of which all targets are known, so that all horizons share one state."""
        rows = self.origins(series, horizon=self.horizons[-1])
        return np.asarray(rows[np.isfinite(self._later(series, rows)).all(1)])

    def features(self, series: Series, origins: Array) -> LaggedSource:
        return series.lagged(self.memory, origins, inputs=self.design.inputs, calendar=self.calendar)

    def targets(self, series: Series, origins: Array) -> Array:
        """Of shape (n, horizons × outputs)."""
        return self._later(series, origins) - self._base(series, origins)

    def forecasts(self, series: Series, origins: Array, found: Array) -> Array:
        """What predictions of `targets` mean for the target itself, of shape (n, horizons)."""
        return self.design.assembled(found + self._base(series, origins))

    def persistence(self, series: Series, origins: Array) -> Array:
        now = series.channel(self.design.target)[origins]
        return np.repeat(now[:, None], len(self.horizons), 1)

    def actual(self, series: Series, origins: Array) -> Array:
        """What came, of shape (n, horizons): NaN where it is not known, or behind a gap."""
        found = np.full((len(origins), len(self.horizons)), np.nan)
        values, ticks = series.channel(self.design.target), series.ticks
        for place, horizon in enumerate(self.horizons):
            known = origins + horizon < len(series)
            rows = origins[known]
            joined = ticks[rows + horizon] - ticks[rows] == horizon
            found[known, place] = np.where(joined, values[rows + horizon], np.nan)
        return found

    def _later(self, series: Series, origins: Array) -> Array:
        outputs = series.columns(self.design.outputs)
        ahead = np.array(self.horizons)
        width = len(ahead) * len(self.design.outputs)
        return np.asarray(outputs[origins[:, None] + ahead].reshape(len(origins), width))

    def _base(self, series: Series, origins: Array) -> Array:
        width = len(self.horizons) * len(self.design.outputs)
        if not self.difference:
            return np.zeros((len(origins), width))
        now = series.columns(self.design.outputs)[origins]
        return np.tile(now, (1, len(self.horizons)))
