"""Backtests: models that are trained again as time goes by, from moments that windows join and leave."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.estimators.fingerprint import digest, fingerprint
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import State

from .problem import Problem
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
    window = read_window(retrain)
    period = read_duration("every", every)
    history, problem = model.series_.followed_by(series), model.problem_
    start = len(model.series_)
    origins = problem.origins(history)
    origins = origins[origins >= start]
    if len(origins) == 0:
        raise ValueError(f"{series!r} has no window of memory={problem.memory} stamps without a gap or NaN")
    if model.model == "persistence" or retrain == "static":
        found = model.means(history, origins)
    else:
        kept = None if checkpoint is None else _checkpoint(checkpoint, model, history, (str(retrain), str(period)))
        found = _retrained(model, history, origins, period, str(retrain), window, kept)
    ahead = np.array(problem.horizons) * history.step
    return Backtest(
        target=problem.design.target,
        origins=history.times[origins],
        horizons=problem.horizons,
        times=history.times[origins][:, None] + ahead,
        actual=problem.actual(history, origins),
        mean=found,
        persistence=problem.persistence(history, origins),
        intervals=model.intervals(found, levels),
        retrain=str(retrain),
    )


def read_window(retrain: Any) -> np.timedelta64 | None:
    """The duration in "online-90D"; None for the other modes."""
    if isinstance(retrain, str) and retrain.startswith("online-"):
        return read_duration("retrain", retrain.removeprefix("online-"))
    if retrain not in MODES:
        raise ValueError(f"retrain must be 'static', 'incremental', 'online' or 'online-90D', got {retrain!r}")
    return None


def _checkpoint(
    directory: str | os.PathLike[str], model: KernelForecaster, history: Series, settings: tuple[str, str]
) -> Checkpoint:
    """That of one backtest: of a model as it was fitted, a series, a mode and a period."""
    known = {"the fitted model": digest((model.kernel_.to_dict(), model.centers_, model.penalties_))}
    data = {"the series": (history.times.astype(np.int64), history.values), "retrain and every": settings}
    return Checkpoint(directory, fingerprint(model, data) | known)


def _retrained(
    model: KernelForecaster,
    history: Series,
    origins: Array,
    period: np.timedelta64,
    mode: str,
    window: Any,
    kept: Checkpoint | None,
) -> Array:
    problem, start = model.problem_, len(model.series_)
    rows = problem.training(history)
    ends = rows + problem.horizons[-1]  # the last stamp that a window needs
    first = int(np.searchsorted(ends, start))  # windows before it belong to the fit
    if mode != "incremental" and first < model.n_windows_:
        raise ValueError(
            f"retrain={mode!r} takes windows of the training series out, but a model file keeps only the end of it: "
            "fit the model again, or use retrain='incremental'"
        )
    state = _Sliding(model.basis_, problem, history, rows, model.moments_, (0, first))
    found = np.full((len(origins), len(problem.horizons)), np.nan)
    begin = history.times[start]
    number = np.asarray((history.times[origins] - begin) // period).astype(np.int64)
    done = -1 if kept is None else _resumed(kept, state, found)
    for place in np.unique(number[number > done]):
        moment = begin + int(place) * period
        stop = int(np.searchsorted(ends, np.searchsorted(history.times, moment)))  # all targets lie before the moment
        if window is not None:
            oldest = int(np.searchsorted(history.times[rows], moment - window))
        else:
            oldest = max(0, stop - first) if mode == "online" else 0
        if mode != "incremental" and stop - oldest < 2:
            raise ValueError(f"retrain={mode!r}: {stop - oldest} windows are known at {moment}: use a longer duration")
        moments = state.moved(oldest, stop)
        regression = Regression.solved(model.basis_, moments, model.penalties_of(moments.count))
        here = origins[number == place]
        found[number == place] = problem.forecasts(history, here, regression.predict(problem.features(history, here)))
        if kept is not None and kept.due:
            facts, arrays = state.pack()
            kept.save(STAGE, facts | {"done": int(place)}, arrays | {"found": found})
    if kept is not None:
        kept.clear()
    return found


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
        self._basis, self._problem, self._series, self._rows = basis, problem, series, rows
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
        rows = self._rows[first:stop]
        X, Y = self._problem.features(self._series, rows), self._problem.targets(self._series, rows)
        return self._basis.moments(X, Y, self._moments.origin)
