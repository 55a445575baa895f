"""Forecasts from some origins: means, and intervals around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gyrfalcon.arrays import Array


@dataclass(frozen=True)
class Forecast:
    """What a forecaster says from each of some origins.

    Attributes
    ----------
    target : str
    origins : array of datetime64 of shape (n,)
        The last stamps that were known.
    horizons : tuple of int
    times : array of datetime64 of shape (n, horizons)
        The stamps that are forecast.
    mean : array of shape (n, horizons)
    intervals : dict of level to (lower, upper)
        Arrays of shape (n, horizons) for each level in percent.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(500)
    >>> series = gf.forecasting.Series({"t": hours, "x": np.sin(0.3 * np.arange(500.0))}, time="t")
    >>> model = gf.forecasting.KernelForecaster(horizons=[1, 6], memory=4, model="linear").fit(series)
    >>> forecast = model.predict(level=90)
    >>> forecast.times[0].astype("M8[h]").tolist()[0].hour, bool(abs(forecast.mean[0, 0] - np.sin(150)) < 0.01)
    (20, True)
    >>> sorted(forecast.table())
    ['forecast', 'horizon', 'lower_90', 'origin', 'time', 'upper_90']
    """

    target: str
    origins: Array
    horizons: tuple[int, ...]
    times: Array
    mean: Array
    intervals: Mapping[float, tuple[Array, Array]] = field(default_factory=dict)

    def table(self) -> dict[str, Array]:
        """Columns of a table with one row for each origin and horizon, which data frames can be made of."""
        n = len(self.origins)
        columns = {
            "origin": np.repeat(self.origins, len(self.horizons)),
            "horizon": np.tile(np.array(self.horizons), n),
            "time": self.times.ravel(),
            "forecast": self.mean.ravel(),
        }
        for level, (lower, upper) in self.intervals.items():
            columns |= {f"lower_{level:g}": lower.ravel(), f"upper_{level:g}": upper.ravel()}
        return columns
