"""KernelForecaster: direct forecasts for several horizons, from windows of a series."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import Savable, State

from . import choices, files
from .backtest import run
from .designs import Design
from .folds import Folds, blocks_of
from .forecast import Forecast
from .intervals import bounds, read_levels
from .problem import Problem
from .regression import Basis, Regression
from .results import Backtest
from .series import Series
from .stamps import read_stamp


class KernelForecaster(Savable, BaseEstimator):  # type: ignore[misc]
    """Direct forecasts of a series for several horizons, ŝ_{t+h} = s_t + f_h(η_t, …, η_{t-μ+1}).

    The functions f_h of a window of μ values of some channels minimize the mean square error plus penalty ‖f‖², with
    centers among the windows. All horizons share the kernel, the centers and one state, so that six cost little more
    than one; each has its own penalty. Windows are made when they are read, and none spans a gap.

    What is "auto" is chosen by cross-validation over blocks of time, between which so many windows are left out that
    what is held out shares no stamp with what is learned from.

    Parameters
    ----------
    horizons : sequence of int
        How many steps ahead.
    memory : int
        μ, how many values of each channel a forecast sees.
    design : "auto", "s->s", "zm->s", "zm->zm" or "s+zm->s"
        Which channels are seen, and forecast: s is the target, and zm are the components u and v of a wind. "zm->zm"
        forecasts both components, and the speed from them. "auto" sees all there are of these, and forecasts s.
    model : "kernel", "linear" or "persistence"
        A linear autoregression, and the forecast that nothing changes, have the same face.
    calendar : sequence of "day", "week" and "year", optional
        Whose phases at the origin are features.
    exogenous : sequence of str or "all", optional
        More channels that are seen, such as other stations.
    kernel : str or Kernel
    length_scale : "auto" or float
        A multiple of the automatic length scales, which are the spread of each feature times the typical distance
        between windows.
    decay : "auto" or float
        Length scales of a value that is j steps old are (1 + j)^decay times those of the latest.
    remoteness : "auto" or float
        Length scales of exogenous channels are so many times as long: the larger, the less they matter. "auto" lets
        blocks that are held out decide, so that channels that say nothing cost nothing.
    penalty : "auto" or float
    n_centers : "auto" or int
        "auto" is 10 √n.
    centers : "uniform", "kmeans", "leverage", "pivoted", or array of shape (m, d)
    difference : bool
        Whether f_h is the change since the origin, or the value itself.
    folds : int
        Blocks of the training series.
    memory_budget : int, optional
        Bytes that temporaries may take.
    random_state : int, RandomState or None

    Attributes
    ----------
    series_ : Series
        The training series.
    kernel_, centers_ : Kernel, array of shape (m, d)
    penalties_ : array of shape (outputs,)
        For each horizon, and for each component with "zm->zm".
    length_scale_, decay_, remoteness_ : float
        What was chosen.
    moments_ : Moments
        All that is known of the training windows.
    errors_ : array of shape (n, horizons)
        Sorted errors of forecasts of the last blocks, each by a model of what came before it.
    n_windows_ : int

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random, x = np.random.default_rng(0), [0.0, 0.0]
    >>> for _ in range(3000):
    ...     x.append(1.6 * np.sin(x[-1]) - 0.7 * x[-2] + random.normal())
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(len(x))
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> model = gf.forecasting.KernelForecaster(horizons=[1, 3], memory=4, n_centers=60, random_state=0)
    >>> model.fit(series[:"2018-04-01"]).predict(level=[80, 95]).mean.shape
    (1, 2)
    >>> test = model.backtest(series["2018-04-01":], retrain="incremental", every="7D")
    >>> bool((test.gamma < 0.9).all())
    True
    """

    series_: Series
    problem_: Problem
    length_scale_: float
    decay_: float
    remoteness_: float
    errors_: Array | None
    n_windows_: int

    def __init__(
        self,
        horizons: Any = (1, 3, 6, 12, 18, 24),
        memory: int = 24,
        design: str = "auto",
        *,
        model: str = "kernel",
        calendar: Any = None,
        exogenous: Any = None,
        kernel: Any = "gaussian",
        length_scale: Any = "auto",
        decay: Any = "auto",
        remoteness: Any = "auto",
        penalty: Any = "auto",
        n_centers: Any = "auto",
        centers: Any = "uniform",
        difference: bool = True,
        folds: int = 5,
        memory_budget: int | None = None,
        random_state: Any = None,
    ):
        self.horizons = horizons
        self.memory = memory
        self.design = design
        self.model = model
        self.calendar = calendar
        self.exogenous = exogenous
        self.kernel = kernel
        self.length_scale = length_scale
        self.decay = decay
        self.remoteness = remoteness
        self.penalty = penalty
        self.n_centers = n_centers
        self.centers = centers
        self.difference = difference
        self.folds = folds
        self.memory_budget = memory_budget
        self.random_state = random_state

    # Learning.

    def fit(self, series: Series, y: Any = None) -> Self:
        """Learn from a series.

        Parameters
        ----------
        series : Series
        y : ignored
        """
        choices.check(self)
        _check_series(series)
        design = Design.of(self.design, self.exogenous, series)
        problem = Problem(
            design, int(self.memory), choices.horizons(self), choices.calendar(self), bool(self.difference)
        )
        origins = problem.training(series)
        if len(origins) == 0:
            raise ValueError(
                f"{series!r} has no window of {problem.reach} stamps without a gap or NaN: shorten memory or horizons"
            )
        try:
            labels = blocks_of(origins, int(self.folds), problem.reach)[0]
        except ValueError:
            if choices.tuned(self):
                raise
            labels = np.zeros(len(origins), dtype=np.int64)
        self.series_, self.problem_, self.n_windows_ = series, problem, len(origins)
        self._learn(origins, labels)
        return self

    def _learn(self, origins: Array, labels: Array) -> None:
        series, problem = self.series_, self.problem_
        self._regression: Regression | None = None
        self._moments: Moments | None = None
        folds = None
        if self.model != "persistence":
            X, Y = problem.features(series, origins), problem.targets(series, origins)
            chosen = choices.Chooser(self, problem, X, Y, labels).choose()
            folds = chosen.folds
            self.length_scale_, self.decay_, self.remoteness_ = chosen.shape
            self._moments = folds.total()
            self._regression = Regression.solved(chosen.basis, self._moments, chosen.penalties)
        self.errors_ = self._block_errors(origins, labels, folds)

    def _block_errors(self, origins: Array, labels: Array, folds: Folds | None) -> Array | None:
        """Errors on the last blocks of models of what came before each, sorted; None if there is one block only."""
        count = int(labels.max()) // 2 + 1
        found = []
        for place in range(max(1, count // 2), count):
            rows = origins[labels // 2 == place]
            known = None
            if folds is not None and self._regression is not None:
                old = self._regression
                before = folds.before(place)
                known = Regression.solved(old.basis, before, self.penalties_of(before.count))
            found.append(self.problem_.actual(self.series_, rows) - self._means(self.series_, rows, known))
        return np.sort(np.concatenate(found), axis=0) if found else None

    def update(self, later: Series) -> Self:
        """Learn from the stamps that have come since: kernel and centers stay, and penalties are `penalties_of` so many
        windows.

        The model is that of a fit of everything with the same choices.

        Parameters
        ----------
        later : Series
            It begins after the end of the series so far.
        """
        check_is_fitted(self, "problem_")
        _check_series(later)
        history = self.series_.followed_by(later)
        origins = self.problem_.training(history)
        fresh = origins[origins + self.problem_.horizons[-1] >= len(self.series_)]
        count = self.n_windows_ + len(fresh)
        if self._moments is not None and self._regression is not None:
            penalties = self.penalties_of(count)
            self._moments = self._moments + self._moments_of(history, fresh)
            self._regression = Regression.solved(self._regression.basis, self._moments, penalties)
        self.series_, self.n_windows_ = history, count
        return self

    def _moments_of(self, series: Series, origins: Array) -> Moments:
        assert self._regression is not None
        assert self._moments is not None
        X, Y = self.problem_.features(series, origins), self.problem_.targets(series, origins)
        return self._regression.basis.moments(X, Y, self._moments.origin)

    # What was learned.

    def _learned(self) -> tuple[Regression, Moments]:
        check_is_fitted(self, "problem_")
        if self._regression is None or self._moments is None:
            raise AttributeError("a persistence model has neither a kernel nor moments")
        return self._regression, self._moments

    @property
    def basis_(self) -> Basis:
        return self._learned()[0].basis

    @property
    def kernel_(self) -> Kernel:
        return self.basis_.kernel

    @property
    def centers_(self) -> Array:
        return self.basis_.centers

    @property
    def penalties_(self) -> Array:
        return self._learned()[0].penalties

    def penalties_of(self, count: int) -> Array:
        """The penalties of a model of so many windows.

        Errors are averaged over windows, so that a penalty that is good for n of them is n / count times as large for
        count. A penalty that was given, rather than chosen, stays what it is.

        Parameters
        ----------
        count : int
        """
        chosen = self.penalties_
        return chosen * (self.n_windows_ / count) if self.penalty == "auto" else chosen

    @property
    def moments_(self) -> Moments:
        return self._learned()[1]

    # Forecasts.

    def predict(self, series: Series | None = None, *, origin: Any = None, level: Any = None) -> Forecast:
        """Forecasts from the last window of a series, or from other origins.

        Parameters
        ----------
        series : Series, optional
            The training series if not given.
        origin : moment or sequence of moments, optional
            The last stamp that is known, such as "2018-03-01T12:00"; the last of the series if not given.
        level : float or sequence of float, optional
            In percent. Intervals are conformal: quantiles of the errors of forecasts of the last blocks of the training
            series, by models of what came before them.
        """
        check_is_fitted(self, "problem_")
        given = self.series_ if series is None else series
        _check_series(given)
        rows = self._rows(given, origin)
        mean = self.means(given, rows)
        ahead = np.array(self.problem_.horizons) * given.step
        times = given.times[rows][:, None] + ahead
        intervals = self.intervals(mean, read_levels(level), self.errors_)
        return Forecast(self.problem_.design.target, given.times[rows], self.problem_.horizons, times, mean, intervals)

    def _rows(self, series: Series, origin: Any) -> Array:
        possible = self.problem_.origins(series)
        if origin is None:
            if len(possible) == 0 or possible[-1] != len(series) - 1:
                raise ValueError(
                    f"the last {self.problem_.memory} stamps of {series!r} have a gap or NaN: give an origin before"
                )
            return possible[-1:]
        one = isinstance(origin, str) or not np.iterable(origin)
        moments = [read_stamp("origin", moment) for moment in ([origin] if one else origin)]
        rows = np.searchsorted(series.times, np.array(moments))
        absent = series.times[np.minimum(rows, len(series) - 1)] != np.array(moments)
        if absent.any():
            raise ValueError(f"origin={moments[int(np.argmax(absent))]} is not a stamp of {series!r}")
        broken = ~np.isin(rows, possible)
        if broken.any():
            raise ValueError(
                f"origin={moments[int(np.argmax(broken))]}: the {self.problem_.memory} stamps that end there have a "
                "gap or NaN, or begin before the series"
            )
        return np.asarray(rows)

    def means(self, series: Series, rows: Array) -> Array:
        """Forecasts of shape (n, horizons) from rows of a series that are known to be origins of whole windows."""
        check_is_fitted(self, "problem_")
        return self._means(series, rows, self._regression)

    def _means(self, series: Series, rows: Array, regression: Regression | None) -> Array:
        if regression is None:
            return self.problem_.persistence(series, rows)
        return self.problem_.forecasts(series, rows, regression.predict(self.problem_.features(series, rows)))

    def intervals(
        self, mean: Array, levels: tuple[float, ...], errors: Array | None
    ) -> dict[float, tuple[Array, Array]]:
        """Bounds around means of shape (n, horizons), for levels in percent, by sorted errors."""
        if levels and errors is None:
            raise ValueError(
                f"level={levels}: {self.n_windows_:,} windows are too few for blocks that share no stamp, of whose "
                "errors intervals are made"
            )
        found = {}
        for level in levels:
            assert errors is not None
            lower, upper = (mean + bound for bound in bounds(errors, level))
            found[level] = (self.limited(lower), upper)
        return found

    def limited(self, lower: Array) -> Array:
        """Lower bounds that the target can have: a speed is not negative."""
        wind = self.series_.wind
        return np.maximum(lower, 0.0) if wind is not None and self.problem_.design.target == wind.speed else lower

    def score(self, series: Series, y: Any = None) -> float:
        """R² of forecasts from all origins of a series, averaged over horizons.

        Parameters
        ----------
        series : Series
        y : ignored
        """
        check_is_fitted(self, "problem_")
        _check_series(series)
        rows = self.problem_.training(series)
        actual = self.problem_.actual(series, rows)
        errors = np.square(actual - self.means(series, rows)).sum(0)
        return float(1 - (errors / np.square(actual - actual.mean(0)).sum(0)).mean())

    def backtest(
        self,
        series: Series,
        *,
        retrain: str = "static",
        every: Any = "7D",
        level: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Backtest:
        """Forecasts from every origin of a later series, by models that know only what was known at each.

        The model is trained again at the first stamp and after each period, from windows whose targets all lie before
        that moment. Kernel and centers stay those of the fit, and penalties are `penalties_of` so many windows. Windows
        that come and go are added to the moments and taken out of them, so that a period costs one solve. The model
        itself does not change.

        Parameters
        ----------
        series : Series
            It begins after the end of the training series, of which the first windows may need the last stamps.
        retrain : "static", "incremental", "online" or "online-90D"
            Never; with all windows so far; with as many of the latest as the fit had; or with those of the last 90
            days, or of another duration.
        every : str or timedelta
            How long a period is.
        level : float or sequence of float, optional
            Of intervals, in percent. They are those of `predict`; with a window such as that of "online-90D", they are
            made of errors of models of such windows, on the last half of the training series and on what has been
            forecast since, and get wider or narrower after periods in which they missed more or less than they should.
        checkpoint : path, optional
            A directory where forecasts and moments are kept every few seconds. If the process is killed, the same call
            goes on from there and ends with the same bits. The files are removed at the end.
        """
        check_is_fitted(self, "problem_")
        _check_series(series)
        levels = read_levels(level)
        return run(self, series, retrain=retrain, every=every, levels=levels, checkpoint=checkpoint)

    # Files.

    def _describe_parameter(self, name: str, value: Any) -> Any:
        if name in ("horizons", "calendar", "exogenous") and not isinstance(value, str | int | None):
            return [one.item() if isinstance(one, np.generic) else one for one in value]
        return super()._describe_parameter(name, value)

    def _state(self) -> State:
        check_is_fitted(self, "problem_")
        return files.pack(self, self._regression, self._moments)

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._regression, self._moments = files.unpack(self, values, arrays)


def _check_series(series: Any) -> None:
    if not isinstance(series, Series):
        raise TypeError(f"series must be a gyrfalcon.forecasting.Series, got {type(series).__name__}")
