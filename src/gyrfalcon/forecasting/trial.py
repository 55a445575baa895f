"""Trials: what one configuration of a forecaster was worth on one series."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.persistence import State

from .forecaster import KernelForecaster
from .results import Backtest
from .series import Series

HOURS = 24


class Configuration(NamedTuple):
    """How long a forecaster remembers, what it sees and forecasts, and which model it is.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.forecasting.Configuration(24, "zm->s", "kernel").words
    'kernel, zm→s, memory 24'
    """

    memory: int
    design: str
    model: str

    @property
    def words(self) -> str:
        return f"{self.model}, {self.design.replace('->', '→')}, memory {self.memory}"


@dataclass(frozen=True)
class Trial:
    """Errors of one configuration at one station, for all horizons.

    Attributes
    ----------
    station : str
    configuration : Configuration
    nrmse, gamma : arrays of shape (horizons,)
        Of the test; see `Backtest`.
    validation : array of shape (horizons,)
        Root mean square errors on the last blocks of the training series, each by a model of what came before it:
        what to choose by.
    months : array of datetime64 of shape (k,)
    monthly_nrmse, monthly_gamma : arrays of shape (k, horizons)
    hourly_nrmse, hourly_gamma : arrays of shape (24, horizons)
        NaN where there was nothing to forecast.
    seconds : float
        Of CPU time.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(900)
    >>> x = np.sin(np.arange(900) / 4) + np.random.default_rng(0).normal(size=900)
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> found = gf.forecasting.study(series, horizons=[1, 2], memories=[4], models=["linear"], retrain=[])
    >>> found.trials[0].gamma.shape, bool((found.trials[0].gamma < 1).all())
    ((2,), True)
    """

    station: str
    configuration: Configuration
    nrmse: Array
    gamma: Array
    validation: Array
    months: Array
    monthly_nrmse: Array
    monthly_gamma: Array
    hourly_nrmse: Array
    hourly_gamma: Array
    seconds: float

    @classmethod
    def run(
        cls, station: str, configuration: Configuration, model: KernelForecaster, train: Series, test: Series
    ) -> Trial:
        """Fit a forecaster of that configuration to one series, and test it on the series after it."""
        began = time.process_time()
        found = model.fit(train).backtest(test)
        nothing = np.full(len(found.horizons), np.nan)
        months, monthly = _by(found, found.by_month(), "month")
        hours, hourly = _by(found, found.by_hour(), "hour")
        daily = {name: np.full((HOURS, len(found.horizons)), np.nan) for name in hourly}
        for name, values in hourly.items():
            daily[name][hours] = values
        return cls(
            station,
            configuration,
            nrmse=found.nrmse,
            gamma=found.gamma,
            validation=nothing if model.errors_ is None else np.sqrt(np.mean(np.square(model.errors_), axis=0)),
            months=months,
            monthly_nrmse=monthly["nrmse"],
            monthly_gamma=monthly["gamma"],
            hourly_nrmse=daily["nrmse"],
            hourly_gamma=daily["gamma"],
            seconds=time.process_time() - began,
        )

    def pack(self) -> State:
        """What JSON can hold, and arrays."""
        facts = {"station": self.station, "configuration": list(self.configuration), "seconds": self.seconds}
        arrays = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in facts}
        return facts, arrays | {"months": self.months.astype(np.int64)}

    @classmethod
    def unpack(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Trial:
        memory, design, model = facts["configuration"]
        values = dict(arrays) | {"months": arrays["months"].astype("datetime64[M]")}
        configuration = Configuration(int(memory), str(design), str(model))
        return cls(str(facts["station"]), configuration, seconds=float(facts["seconds"]), **values)


def _by(found: Backtest, columns: dict[str, Array], key: str) -> tuple[Array, dict[str, Array]]:
    """The groups, and their errors as arrays of shape (groups, horizons), NaN where there are none."""
    groups, rows = np.unique(columns[key], return_inverse=True)
    places = np.searchsorted(np.array(found.horizons), columns["horizon"])
    spread = {}
    for name in ("nrmse", "gamma"):
        spread[name] = np.full((len(groups), len(found.horizons)), np.nan)
        spread[name][rows, places] = columns[name]
    return groups, spread
