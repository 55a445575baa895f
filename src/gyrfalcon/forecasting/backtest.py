"""Backtests: models that are trained again as time goes by, from moments that windows join and leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.estimators.fingerprint import digest, fingerprint
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import State

from .problem import Problem
from .recalibration import History, moving_bounds
from .regression import Basis, Regression
from .results import Backtest
from .series import Series
from .stamps import read_duration

if TYPE_CHECKING:
    from .forecaster import KernelForecaster

MODES = ("static", "incremental", "online")
STAGE = "solver"  # of the checkpoint


def run(
    model: KernelForecaster,
    series: Series,
    *,
    retrain: Any,
    every: Any,
    levels: tuple[float, ...],
    checkpoint: str | os.PathLike[str] | None = None,
) -> Backtest:
    """Forecasts from all origins of a series that follows the training series; see `KernelForecaster.backtest`."""
    plan = _Plan(str(retrain), read_duration("every", every), read_window(retrain))
    history, problem = model.series_.followed_by(series), model.problem_
    origins = problem.origins(history)
    origins = origins[origins >= len(model.series_)]
    if len(origins) == 0:
        raise ValueError(f"{series!r} has no window of memory={problem.memory} stamps without a gap or NaN")
    intervals = None
    if model.model == "persistence" or retrain == "static":
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint={os.fspath(checkpoint)!r} is for models that are trained again: leave it out with "
                f"retrain={retrain!r} and model={model.model!r}"
            )
        found = model.means(history, origins)
    else:
        kept = None if checkpoint is None else _checkpoint(checkpoint, model, history, plan)
        found = _retrained(model, history, origins, plan, kept)
        if levels and plan.window is not None and model.errors_ is not None:
            intervals = _moving_intervals(model, history, origins, plan, found, levels)
    ahead = np.array(problem.horizons) * history.step
    return Backtest(
        target=problem.design.target,
        origins=history.times[origins],
        horizons=problem.horizons,
        times=history.times[origins][:, None] + ahead,
        actual=problem.actual(history, origins),
        mean=found,
        persistence=problem.persistence(history, origins),
        intervals=model.intervals(found, levels, model.errors_) if intervals is None else intervals,
        retrain=str(retrain),
    )


def read_window(retrain: Any) -> np.timedelta64 | None:
    """The duration in "online-90D"; None for the other modes."""
    if isinstance(retrain, str) and retrain.startswith("online-"):
        return read_duration("retrain", retrain.removeprefix("online-"))
    if retrain not in MODES:
        raise ValueError(f"retrain must be 'static', 'incremental', 'online' or 'online-90D', got {retrain!r}")
    return None


@dataclass(frozen=True)
class _Plan:
    """How models are trained again."""

    mode: str
    period: np.timedelta64
    window: np.timedelta64 | None


def _checkpoint(directory: str | os.PathLike[str], model: KernelForecaster, history: Series, plan: _Plan) -> Checkpoint:
    """That of one backtest: of a model as it was fitted, a series, a mode and a period."""
    known = {"the fitted model": digest((model.kernel_.to_dict(), model.centers_, model.penalties_))}
    settings = (plan.mode, str(plan.period))
    data = {"the series": history.content, "retrain and every": settings}
    return Checkpoint(directory, fingerprint(model, data) | known)


def _retrained(model: KernelForecaster, history: Series, origins: Array, plan: _Plan, kept: Checkpoint | None) -> Array:
    """Forecasts from origins after the training series."""
    problem, start = model.problem_, len(model.series_)
    rows = problem.training(history)
    first = int(np.searchsorted(rows + problem.horizons[-1], start))  # windows before it belong to the fit
    if plan.mode != "incremental" and first < model.n_windows_:
        raise ValueError(
            f"retrain={plan.mode!r} takes windows of the training series out, but a model file keeps only the end of "
            "it: fit the model again, or use retrain='incremental'"
        )
    state = _Sliding(model.basis_, problem, history, rows, model.moments_, (0, first))
    found = np.full((len(origins), len(problem.horizons)), np.nan)
    done = -1 if kept is None else _resumed(kept, state, found)
    for place, chosen, means in _periods(model, history, origins, start, plan, state, done):
        found[chosen] = means
        if kept is not None and kept.due:
            facts, arrays = state.pack()
            kept.save(STAGE, facts | {"done": place}, arrays | {"found": found})
    if kept is not None:
        kept.clear()
    return found


def _moving_intervals(
    model: KernelForecaster, history: Series, origins: Array, plan: _Plan, found: Array, levels: tuple[float, ...]
) -> dict[float, tuple[Array, Array]]:
    """Intervals that begin with errors of the last half of the training series, by models that are trained in the same
    way, and are corrected with those of the backtest.

    Errors of the fit are those of models of everything before, which are better than models of a short window.
    """
    series, problem = model.series_, model.problem_
    rows = problem.training(series)
    before = rows[len(rows) // 2 :]
    state = _Sliding(model.basis_, problem, series, rows, model.moments_ - model.moments_, (0, 0))
    means = np.full((len(before), len(problem.horizons)), np.nan)
    for _, chosen, some in _periods(model, series, before, int(before[0]), plan, state, -1):
        means[chosen] = some
    errors = [problem.actual(series, before) - means, problem.actual(history, origins) - found]
    times = np.concatenate([series.times[before], history.times[origins]])
    past = History(times, np.array(problem.horizons) * history.step, np.concatenate(errors), len(before))
    begin = history.times[len(series)]
    numbers = _numbers(history, origins, begin, plan.period)
    intervals = {}
    for level in levels:
        lower, upper = moving_bounds(past, numbers, begin, plan.period, level)
        intervals[level] = (model.limited(found + lower), found + upper)
    return intervals


def _numbers(history: Series, origins: Array, begin: np.datetime64, period: np.timedelta64) -> Array:
    """The period of each origin, counted from a moment."""
    return np.asarray((history.times[origins] - begin) // period).astype(np.int64)


def _periods(
    model: KernelForecaster, history: Series, origins: Array, start: int, plan: _Plan, state: _Sliding, done: int
) -> Iterator[tuple[int, Array, Array]]:
    """For each period after those that are done: its number, which origins lie in it, and forecasts from these.

    Periods are counted from the stamp in the row `start`. The model of each knows the windows whose targets all lie
    before the period.
    """
    problem, rows = model.problem_, state.rows
    ends = rows + problem.horizons[-1]  # the last stamp that a window needs
    first = int(np.searchsorted(ends, start))
    begin = history.times[start]
    number = _numbers(history, origins, begin, plan.period)
    for place in np.unique(number[number > done]):
        moment = begin + int(place) * plan.period
        stop = int(np.searchsorted(ends, np.searchsorted(history.times, moment)))
        if plan.window is not None:
            oldest = int(np.searchsorted(history.times[rows], moment - plan.window))
        else:
            oldest = max(0, stop - first) if plan.mode == "online" else 0
        if plan.mode != "incremental" and stop - oldest < 2:
            raise ValueError(
                f"retrain={plan.mode!r}: {stop - oldest} windows are known at {moment}: use a longer duration"
            )
        moments = state.moved(oldest, stop)
        regression = Regression.solved(model.basis_, moments, model.penalties_of(moments.count))
        chosen = number == place
        raw = regression.predict(problem.features(history, origins[chosen]))
        yield int(place), chosen, problem.forecasts(history, origins[chosen], raw)


def _resumed(kept: Checkpoint, state: _Sliding, found: Array) -> int:
    """Put state and forecasts where they stood; returns the last period that is done, or -1."""
    kept.begin({})
    saved = kept.load(STAGE)
    if saved is None:
        return -1
    facts, arrays = saved
    found[:] = arrays.pop("found")
    state.unpack(facts, arrays)
    return int(facts["done"])


class _Sliding:
    """The moments of consecutive windows, of which some join at the end and some leave at the beginning."""

    def __init__(
        self, basis: Basis, problem: Problem, series: Series, rows: Array, moments: Moments, span: tuple[int, int]
    ):
        self._basis, self._problem, self._series, self.rows = basis, problem, series, rows
        self._moments, self._span = moments, span

    def moved(self, first: int, stop: int) -> Moments:
        """Those of the windows from `first` to before `stop`, neither of which ever goes back."""
        old_first, old_stop = self._span
        leave, join = first - old_first, stop - old_stop
        if leave and leave + join > stop - first:  # fewer windows to look at from scratch
            self._moments = self._of(first, stop)
        else:
            self._moments = self._moments + self._of(old_stop, stop) - self._of(old_first, first)
        self._span = first, stop
        return self._moments

    def pack(self) -> State:
        facts, arrays = self._moments.pack()
        return {"moments": facts, "span": self._span}, arrays

    def unpack(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._moments = replace(Moments.unpack(facts["moments"], arrays), whitening=self._basis.whitening)
        first, stop = facts["span"]
        self._span = int(first), int(stop)

    def _of(self, first: int, stop: int) -> Moments:
        rows = self.rows[first:stop]
        X, Y = self._problem.features(self._series, rows), self._problem.targets(self._series, rows)
        return self._basis.moments(X, Y, self._moments.origin)
