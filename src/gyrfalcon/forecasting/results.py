"""What a backtest found: errors by horizon, month and hour, beside persistence and beside another forecaster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from gyrfalcon.arrays import Array

from .forecast import Forecast


class Comparison(NamedTuple):
    """Diebold and Mariano's test, for each horizon.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> gf.forecasting.Comparison(np.array([-2.5]), np.array([0.012])).p_value
    array([0.012])
    """

    statistic: Array
    p_value: Array


@dataclass(frozen=True, kw_only=True, repr=False)
class Backtest(Forecast):
    """Forecasts of a backtest and what came.

    Attributes
    ----------
    origins, horizons, times, mean, intervals
        As of a `Forecast`.
    actual : array of shape (n, horizons)
        NaN where it is not known, and behind gaps.
    persistence : array of shape (n, horizons)
        Forecasts that nothing changes, from the same origins.
    retrain : str

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(900)
    >>> x = np.cumsum(np.random.default_rng(0).normal(size=900))
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> model = gf.forecasting.KernelForecaster(horizons=[1, 2], memory=2, model="persistence")
    >>> test = model.fit(series[:"2018-02-01"]).backtest(series["2018-02-01":])
    >>> test.gamma.tolist(), len(test.table()["time"])
    ([1.0, 1.0], 309)
    """

    actual: Array
    persistence: Array
    retrain: str

    def __repr__(self) -> str:
        rows = [f"Backtest of {self.target}, {self.retrain}, {len(self.origins):,} origins"]
        for horizon, error, gamma in zip(self.horizons, self.nrmse, self.gamma, strict=True):
            rows.append(f"  horizon {horizon:3d}: nrmse {error:.4f}, gamma {gamma:.4f}")
        return "\n".join(rows)

    @property
    def nrmse(self) -> Array:
        """√(Σ (s - ŝ)² / Σ s²) for each horizon."""
        squares = np.where(self._known, np.square(self._truth), 0.0).sum(0)
        return np.asarray(np.sqrt(self._squared(self.mean).sum(0) / squares))

    @property
    def rmse(self) -> Array:
        """√(mean (s - ŝ)²) for each horizon."""
        return np.asarray(np.sqrt(self._squared(self.mean).sum(0) / self._known.sum(0)))

    @property
    def gamma(self) -> Array:
        """The root mean square error over that of persistence from the same origins, for each horizon."""
        return np.asarray(np.sqrt(self._squared(self.mean).sum(0) / self._squared(self.persistence).sum(0)))

    def coverage(self, level: float) -> Array:
        """The share of values within the intervals of a level, for each horizon."""
        if level not in self.intervals:
            raise ValueError(f"level={level!r} was not asked for: backtest(..., level={level!r})")
        lower, upper = self.intervals[level]
        inside = self._known & (self._truth >= lower) & (self._truth <= upper)
        return np.asarray(inside.sum(0) / self._known.sum(0))

    def table(self) -> dict[str, Array]:
        """Columns of a table with one row for each origin and horizon whose value came."""
        columns = super().table() | {"actual": self.actual.ravel(), "persistence": self.persistence.ravel()}
        known = self._known.ravel()
        return {name: column[known] for name, column in columns.items()}

    def by_month(self) -> dict[str, Array]:
        """Errors for each month of the stamps that are forecast and each horizon, as columns of a table."""
        return self._grouped("month", self.times.astype("datetime64[M]"))

    def by_hour(self) -> dict[str, Array]:
        """Errors for each hour of the day (of UTC) that is forecast and each horizon, as columns of a table."""
        hours = self.times.astype("datetime64[h]") - self.times.astype("datetime64[D]").astype("datetime64[h]")
        return self._grouped("hour", hours.astype(np.int64))

    def diebold_mariano(self, other: Backtest | None = None) -> Comparison:
        """Whether squared errors differ from those of another forecaster by more than chance.

        The statistic of Harvey, Leybourne and Newbold (1997): the mean difference of squared errors over its standard
        deviation, with autocovariances up to horizon - 1 under Bartlett's weights. It is negative where this forecaster
        is better, and follows Student's distribution where there is no difference.

        Parameters
        ----------
        other : Backtest, optional
            With the same horizons; origins of both are used. Persistence if not given.
        """
        mine, theirs = slice(None), slice(None)  # type: Any, Any
        rival = self.persistence
        if other is not None:
            if other.horizons != self.horizons or other.target != self.target:
                raise ValueError(f"other has horizons {other.horizons} of {other.target}, not {self.horizons}")
            _, mine, theirs = np.intersect1d(self.origins, other.origins, return_indices=True)
            rival = other.mean
        loss = self._truth[mine] - self.mean[mine]
        difference = np.square(loss) - np.square(self._truth[mine] - rival[theirs])
        pairs = [
            _tested(difference[known, place], horizon)
            for place, (horizon, known) in enumerate(zip(self.horizons, self._known[mine].T, strict=True))
        ]
        return Comparison(*(np.array(values) for values in zip(*pairs, strict=True)))

    def plot(self, ax: Any = None) -> Any:
        """Errors by horizon, beside persistence. Returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
        """
        from matplotlib import pyplot

        axes = pyplot.gca() if ax is None else ax
        axes.plot(self.horizons, self.nrmse / self.gamma, "o:", color="#8c8c8c", label="persistence")
        axes.plot(self.horizons, self.nrmse, "o-", color="#0072b2", label=self.retrain)
        axes.set_xlabel("horizon (steps)")
        axes.set_ylabel("NRMSE")
        axes.legend(frameon=False)
        return axes

    @property
    def _known(self) -> Array:
        return np.isfinite(self.actual)

    @property
    def _truth(self) -> Array:
        return np.where(self._known, self.actual, 0.0)

    def _squared(self, forecast: Array) -> Array:
        return np.where(self._known, np.square(self._truth - forecast), 0.0)

    def _grouped(self, name: str, labels: Array) -> dict[str, Array]:
        groups = np.unique(labels[self._known])
        columns: dict[str, list[Any]] = {name: [], "horizon": [], "count": [], "nrmse": [], "gamma": []}
        own, still, truth = self._squared(self.mean), self._squared(self.persistence), np.square(self._truth)
        for group in groups:
            inside = (labels == group) & self._known
            for place, horizon in enumerate(self.horizons):
                chosen = inside[:, place]
                if not chosen.any():
                    continue
                error = own[chosen, place].sum()
                columns[name].append(group)
                columns["horizon"].append(horizon)
                columns["count"].append(int(chosen.sum()))
                columns["nrmse"].append(_root(error, truth[chosen, place].sum()))
                columns["gamma"].append(_root(error, still[chosen, place].sum()))
        return {key: np.array(values) for key, values in columns.items()}


def _root(above: float, below: float) -> float:
    """The root of a ratio; NaN if there is nothing to compare with."""
    return float(np.sqrt(above / below)) if below > 0 else float("nan")


def _tested(difference: Array, horizon: int) -> tuple[float, float]:
    n = len(difference)
    if n < 2 or n <= horizon:
        return float("nan"), float("nan")
    centered = difference - difference.mean()
    variance = float(centered @ centered) / n
    for lag in range(1, horizon):
        variance += 2 * (1 - lag / horizon) * float(centered[lag:] @ centered[:-lag]) / n
    if variance <= 0:  # the same errors everywhere
        return 0.0, 1.0
    small = (n + 1 - 2 * horizon + horizon * (horizon - 1) / n) / n
    statistic = float(difference.mean()) / np.sqrt(variance / n) * np.sqrt(max(small, 0.0))
    return float(statistic), float(2 * stats.t.sf(abs(statistic), n - 1))
