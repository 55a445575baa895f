"""Studies: every memory, design and model for every horizon, at one or many stations, and what they add up to."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from gyrfalcon.arrays import Array
from gyrfalcon.progress import Bar

from .backtest import read_window
from .diurnal import DiurnalStrength, diurnal_strength
from .forecaster import KernelForecaster
from .results import Backtest
from .series import Series
from .stamps import duration_text, read_duration, read_moment
from .study_files import Kept
from .trial import Configuration, Trial

HORIZONS = (1, 3, 6, 12, 18, 24)
MEMORIES = (2, 6, 24, 48, 72)
MODELS = ("linear", "kernel")
RETRAIN = ("static", "online", "incremental", "online-90D")
LEVEL = 90.0
TRAINING = 0.75  # share of the stamps before the split, if it is not given
DAY = np.timedelta64(24, "h")


@dataclass(frozen=True)
class Study:
    """What `study` found.

    Attributes
    ----------
    stations : dict of str to Series
    splits : dict of str to datetime64
        Where the test of each station begins.
    horizons : tuple of int
    trials : tuple of Trial
        One for each station and configuration.
    retrained : dict of str to dict of str to Backtest
        For each station and each mode of retraining, that of the chosen configuration.
    diurnal : dict of str to DiurnalStrength
        Of each station whose step is a part of a day.
    every : str
        How often models were trained again.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(1200)
    >>> x = np.sin(np.arange(1200) / 4) + np.random.default_rng(0).normal(size=1200)
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> found = gf.forecasting.study(series, horizons=[1, 6], memories=[2, 12], models=["linear"], retrain=["static"])
    >>> found.chosen("x")
    Configuration(memory=12, design='s->s', model='linear')
    >>> len(found.table()["nrmse"]), sorted(found.retrained["x"])
    (4, ['static'])
    """

    stations: dict[str, Series]
    splits: dict[str, np.datetime64]
    horizons: tuple[int, ...]
    trials: tuple[Trial, ...]
    retrained: dict[str, dict[str, Backtest]]
    diurnal: dict[str, DiurnalStrength]
    every: str

    def __repr__(self) -> str:
        rows = [f"Study of {len(self.trials) * len(self.horizons):,} models, {len(self.stations)} stations"]
        for station in self.stations:
            trial = self.trial(station, self.chosen(station))
            errors = " ".join(f"{error:.4f}" for error in trial.nrmse)
            rows.append(f"  {station}: {trial.configuration.words}; nrmse {errors}")
        return "\n".join(rows)

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """All that were tried, at any station."""
        return tuple(dict.fromkeys(trial.configuration for trial in self.trials))

    @property
    def step(self) -> str:
        """Between stamps, such as "1h", if all stations have the same."""
        return "/".join(sorted({duration_text(series.step) for series in self.stations.values()}))

    def at(self, station: str) -> list[Trial]:
        """The trials of one station."""
        found = [trial for trial in self.trials if trial.station == station]
        if not found:
            raise ValueError(f"there is no station {station!r}; there are {', '.join(self.stations)}")
        return found

    def trial(self, station: str, configuration: Configuration) -> Trial:
        """That of one configuration at one station."""
        for trial in self.at(station):
            if trial.configuration == configuration:
                return trial
        raise ValueError(f"{configuration} was not tried at {station!r}")

    def chosen(self, station: str, horizon: int | None = None, *, model: str | None = None) -> Configuration:
        """The configuration whose errors on the last blocks of the training series were least.

        The errors of the test have no say in it.

        Parameters
        ----------
        station : str
        horizon : int, optional
            One horizon; the mean of the logarithms over all if not given.
        model : "kernel" or "linear", optional
            Among those of one model.
        """
        found = [trial for trial in self.at(station) if model in (None, trial.configuration.model)]
        if not found:
            raise ValueError(f"model={model!r} was not tried")
        return min(found, key=lambda trial: self._worth(trial, horizon)).configuration

    def _worth(self, trial: Trial, horizon: int | None) -> float:
        if horizon is None:
            return float(np.log(trial.validation).mean())
        if horizon not in self.horizons:
            raise ValueError(f"horizon={horizon} was not tried; {self.horizons} were")
        return float(trial.validation[self.horizons.index(horizon)])

    def common(self, horizon: int) -> Configuration:
        """Of the configurations that were tried everywhere, the one that is chosen at most stations; of several, the
        first in the order of the grid."""
        votes = Counter(self.chosen(station, horizon) for station in self.stations)
        tried = Counter(trial.configuration for trial in self.trials)
        everywhere = [one for one in self.configurations if tried[one] == len(self.stations)]
        return max(everywhere, key=lambda configuration: votes[configuration])

    def table(self) -> dict[str, Array]:
        """Columns of a table with one row for each station, configuration and horizon."""
        names = ("station", "memory", "design", "model", "horizon", "nrmse", "gamma", "validation")
        rows = [
            (trial.station, *trial.configuration, horizon, trial.nrmse[h], trial.gamma[h], trial.validation[h])
            for trial in self.trials
            for h, horizon in enumerate(self.horizons)
        ]
        return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}

    def report(self, path: str | os.PathLike[str] = "study.html", **settings: Any) -> Path:
        """Write one HTML file about it; see `report.write_forecasting_report`."""
        from gyrfalcon.report import write_forecasting_report  # which is built on this room

        return write_forecasting_report(path, self, **settings)


def study(
    stations: Series | Mapping[str, Series],
    *,
    horizons: Sequence[int] = HORIZONS,
    memories: Sequence[int] = MEMORIES,
    designs: Sequence[str] | None = None,
    models: Sequence[str] = MODELS,
    split: Any = None,
    retrain: Sequence[str] = RETRAIN,
    every: str = "28D",
    forecaster: KernelForecaster | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = True,
) -> Study:
    """Try every memory, design and model at every station, for all horizons.

    Each configuration is fitted to the stamps before the split, with everything "auto" chosen there, and tested on
    those after it. All horizons of one configuration share the kernel, the centers and one pass over the windows. The
    configuration with the least errors on the last blocks of the training series is then trained again as time goes
    by, in each of the modes of `KernelForecaster.backtest`.

    Parameters
    ----------
    stations : Series or mapping of str to Series
    horizons, memories : sequence of int
    designs : sequence of str, optional
        "s->s", and "zm->s" and "zm->zm" for a wind, if not given.
    models : sequence of "linear" and "kernel"
    split : moment, optional
        Where the test begins, such as "2018-01-01"; after three quarters of the stamps of each station if not given.
    retrain : sequence of str
        Modes of retraining; none if it is empty.
    every : str
        How often models are trained again.
    forecaster : KernelForecaster, optional
        Whose other parameters are used; `KernelForecaster(random_state=0)` if not given.
    checkpoint : path, optional
        A directory where trials are kept as they are found. If the process is killed, the same call goes on from
        there. The files are removed at the end.
    verbose : bool
        Whether to show a bar.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(1200)
    >>> x = np.sin(np.arange(1200) / 4) + np.random.default_rng(0).normal(size=1200)
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> found = gf.forecasting.study(series, horizons=[1, 6], memories=[2, 12], models=["linear"], retrain=[])
    >>> found.table()["memory"].tolist(), bool((found.table()["gamma"] < 1).all())
    ([2, 2, 12, 12], True)
    """
    named = {stations.target: stations} if isinstance(stations, Series) else dict(stations)
    if not named or not all(isinstance(series, Series) for series in named.values()):
        raise TypeError("stations must be a gyrfalcon.forecasting.Series, or a mapping of names to several")
    for mode in retrain:
        read_window(mode)
    read_duration("every", every)
    prototype = KernelForecaster(random_state=0) if forecaster is None else forecaster
    prototype = clone(prototype).set_params(horizons=_distinct("horizons", horizons))
    grid = {
        name: [
            Configuration(memory, design, model)
            for memory in _distinct("memories", memories)
            for design in _designs(designs, series)
            for model in _distinct("models", models)
        ]
        for name, series in named.items()
    }
    trials: list[Trial] = []
    splits, retrained, diurnal = {}, {}, {}
    steps = sum(len(tried) + len(retrain) for tried in grid.values())
    with Bar("study", verbose=verbose, total=steps) as bar:
        for number, (name, series) in enumerate(named.items()):
            splits[name] = _split(series, split)
            train, test = series[: splits[name]], series[splits[name] :]
            kept = Kept.of(checkpoint, number, prototype, series, (str(splits[name]), grid[name], list(retrain), every))
            found = _trials(name, grid[name], prototype, train, test, kept, bar)
            trials += found
            part = Study({name: series}, {}, tuple(prototype.horizons), tuple(found), {}, {}, every)
            best = _prepared(prototype, part.chosen(name)) if retrain else None
            retrained[name] = {} if best is None else _retrained(best, train, test, retrain, every, kept, bar)
            if series.step < DAY:
                with contextlib.suppress(ValueError):  # no window of five days without a gap
                    diurnal[name] = diurnal_strength(test)
    for number in range(len(named)):
        Kept.clear(checkpoint, number)
    return Study(named, splits, tuple(prototype.horizons), tuple(trials), retrained, diurnal, every)


def _trials(
    name: str,
    grid: list[Configuration],
    prototype: KernelForecaster,
    train: Series,
    test: Series,
    kept: Kept,
    bar: Bar,
) -> list[Trial]:
    found = kept.trials()
    for _ in found:
        bar.step()
    for configuration in grid[len(found) :]:
        found.append(Trial.run(name, configuration, _prepared(prototype, configuration), train, test))
        kept.keep_trials(found)
        bar.step()
    return found


def _retrained(
    model: KernelForecaster, train: Series, test: Series, retrain: Sequence[str], every: str, kept: Kept, bar: Bar
) -> dict[str, Backtest]:
    found = kept.backtests()
    for _ in found:
        bar.step()
    missing = [mode for mode in retrain if mode not in found]
    if missing:
        model.fit(train)
    for mode in missing:
        level = LEVEL if model.errors_ is not None else None
        under_way = None if mode == "static" else kept.folder(mode)
        found[mode] = model.backtest(test, retrain=mode, every=every, level=level, checkpoint=under_way)
        kept.keep_backtests(found)
        bar.step()
    return found


def _prepared(prototype: KernelForecaster, configuration: Configuration) -> KernelForecaster:
    memory, design, model = configuration
    prepared: KernelForecaster = clone(prototype).set_params(memory=memory, design=design, model=model)
    if model == "linear":  # which has no kernel whose length scales could be given
        prepared.set_params(kernel="gaussian", length_scale="auto", decay="auto")
    return prepared


def _distinct(name: str, values: Any) -> list[Any]:
    found = sorted(values) if name in ("horizons", "memories") else list(values)
    if isinstance(values, str) or not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be a list of different values, got {values!r}")
    if name == "models" and not set(found) <= set(MODELS):
        raise ValueError(f"models must hold 'linear' and 'kernel', got {values!r}")
    return found


def _designs(designs: Any, series: Series) -> list[str]:
    if designs is None:
        return ["s->s"] if series.wind is None else ["s->s", "zm->s", "zm->zm"]
    return [str(design).replace("→", "->") for design in _distinct("designs", designs)]


def _split(series: Series, split: Any) -> np.datetime64:
    if split is None:
        moment: np.datetime64 = series.times[int(TRAINING * len(series))]
        return moment
    return read_moment("split", split)
