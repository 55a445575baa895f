"""Figures of a study of forecasts: errors by horizon, memory, design, month and hour, and by what was retrained."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.forecasting import Backtest, Configuration, Study, Trial

from . import page
from .plot import Plot
from .scale import Marked, Scale

Array = np.ndarray[Any, Any]

COLORS = ("ours", "other", "third", "fourth", "fifth", "ink")
DESIGNS = {"zm->s": "ours", "s->s": "other", "zm->zm": "third", "s+zm->s": "fourth"}
MODES = {"static": "other", "online": "third", "incremental": "ours"}
DAY = np.timedelta64(1, "D")
WEEK = 7 * DAY


def color_of(design: str) -> str:
    return DESIGNS.get(design, "ours")


def arrow(design: str) -> str:
    return design.replace("->", "→")


def mode_color(mode: str) -> str:
    return MODES.get(mode, "fourth")


def chosen_trials(study: Study, horizon: int | None = None, model: str | None = None) -> list[Trial]:
    """The trial of the configuration that was chosen at each station."""
    return [study.trial(name, study.chosen(name, horizon, model=model)) for name in study.stations]


def errors_by_horizon(study: Study) -> list[str]:
    """NRMSE and γ of what was chosen for each horizon, beside persistence; means over stations."""
    models = dict.fromkeys(configuration.model for configuration in study.configurations)
    lines = {model: _chosen_errors(study, model) for model in models}
    still = np.mean([trial.nrmse / trial.gamma for trial in chosen_trials(study)], axis=0)
    drawn = []
    for place, (title, label) in enumerate((("NRMSE", "NRMSE"), ("Beside persistence", "γ = error / persistence"))):
        level = np.ones(len(still)) if place else still
        plot = Plot(_ahead(study), Scale.of(level, *(line[place] for line in lines.values())), _unit(study), label)
        plot.line(study.horizons, level, "soft", dashed=True)
        keys = {"persistence": "soft dashed"}
        for (model, line), color in zip(lines.items(), ("other", "ours"), strict=False):
            plot.line(study.horizons, line[place], color)
            plot.dots(study.horizons, line[place], color)
            keys[model] = color
        caption = "Test errors of the memory and design that were chosen for each horizon on the training years."
        drawn.append(page.figure(title, plot.svg(f"{title} by horizon"), caption, keys))
    return drawn


def _chosen_errors(study: Study, model: str) -> tuple[Array, Array]:
    found = np.empty((2, len(study.horizons)))
    for h, horizon in enumerate(study.horizons):
        trials = chosen_trials(study, horizon, model)
        found[:, h] = np.mean([(trial.nrmse[h], trial.gamma[h]) for trial in trials], axis=0)
    return found[0], found[1]


def memory_by_horizon(study: Study) -> list[str]:
    """NRMSE against memory for each horizon, a line for each design and model; means over stations."""
    memories = sorted({configuration.memory for configuration in study.configurations})
    kinds = dict.fromkeys((configuration.design, configuration.model) for configuration in study.configurations)
    keys = {
        f"{model} {arrow(design)}": color_of(design) + " dashed" * (model == "linear") for design, model in kinds
    } | {"persistence": "soft"}
    drawn = []
    for h, horizon in enumerate(study.horizons):
        lines = {
            kind: np.array([_mean(study, Configuration(memory, *kind), h) for memory in memories]) for kind in kinds
        }
        still = float(np.mean([trial.nrmse[h] / trial.gamma[h] for trial in study.trials]))
        plot = Plot(Marked.at(memories, log=True), Scale.of([still], *lines.values()), "memory (steps)", "NRMSE")
        plot.line([memories[0], memories[-1]], [still, still], "soft")
        for (design, model), line in lines.items():
            plot.line(memories, line, color_of(design), dashed=model == "linear")
            plot.dots(memories, line, color_of(design), size=4)
        title = f"Horizon {horizon}"
        drawn.append(page.figure(title, plot.svg(f"NRMSE against memory, horizon {horizon}"), "", keys))
    return drawn


def _mean(study: Study, configuration: Configuration, h: int) -> float:
    found = [trial.nrmse[h] for trial in study.trials if trial.configuration == configuration]
    return float(np.mean(found)) if found else float("nan")


def gain_of_memory(study: Study) -> str:
    """What a longer memory brings the configuration that was chosen for each horizon; means over stations."""
    memories = sorted({configuration.memory for configuration in study.configurations})
    lines = []
    for h, horizon in enumerate(study.horizons):
        gains = []
        for name in study.stations:
            kind = study.chosen(name, horizon)[1:]
            errors = np.array([study.trial(name, Configuration(memory, *kind)).nrmse[h] for memory in memories])
            gains.append(errors - errors[0])
        lines.append(np.mean(gains, axis=0))
    plot = Plot(Marked.at(memories, log=True), Scale.of([0.0], *lines), "memory (steps)", "change of NRMSE")
    plot.line([memories[0], memories[-1]], [0.0, 0.0], "soft")
    keys = {}
    for horizon, line, color in zip(study.horizons, lines, COLORS, strict=False):
        plot.line(memories, line, color)
        plot.dots(memories, line, color, size=4)
        keys[f"horizon {horizon}"] = color
    caption = f"Against a memory of {memories[0]}, with the design and model that were chosen for each horizon."
    return page.figure("What memory brings", plot.svg("change of NRMSE against memory"), caption, keys)


def design_differences(study: Study) -> list[str]:
    """Differences of NRMSE between designs and models at each station, with the memory that was chosen for each."""
    designs = {configuration.design for configuration in study.configurations}
    models = {configuration.model for configuration in study.configurations}
    model = "kernel" if "kernel" in models else next(iter(models))
    pairs: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    if {"zm->s", "s->s"} <= designs:
        pairs.append(("Seeing the components: zm→s less s→s", {"design": "zm->s"}, {"design": "s->s"}))
    if {"zm->s", "zm->zm"} <= designs:
        pairs.append(("Forecasting the speed: zm→s less zm→zm", {"design": "zm->s"}, {"design": "zm->zm"}))
    drawn = [_difference(study, title, one | {"model": model}, two | {"model": model}) for title, one, two in pairs]
    if {"kernel", "linear"} <= models:
        drawn.append(
            _difference(study, "Being nonlinear: kernel less linear", {"model": "kernel"}, {"model": "linear"})
        )
    return drawn


def _difference(study: Study, title: str, one: dict[str, Any], two: dict[str, Any]) -> str:
    values = np.array(
        [
            [_best(study, name, h, one) - _best(study, name, h, two) for h in range(len(study.horizons))]
            for name in study.stations
            if _matching(study, name, one) and _matching(study, name, two)
        ]
    )
    plot = Plot(_ahead(study), Scale.of([0.0], values), _unit(study), "difference of NRMSE")
    plot.line([study.horizons[0], study.horizons[-1]], [0.0, 0.0], "soft")
    plot.line(study.horizons, values.mean(0))
    for row in values:
        plot.dots(study.horizons, row, "ours" if len(values) == 1 else "ours cloud")
    return page.figure(title, plot.svg(title), "Below zero, the first is better.")


def _best(study: Study, name: str, h: int, wanted: dict[str, Any]) -> float:
    return float(min(_matching(study, name, wanted), key=lambda trial: float(trial.validation[h])).nrmse[h])


def _matching(study: Study, name: str, wanted: dict[str, Any]) -> list[Trial]:
    """Trials of a station whose configurations have those values; none of a design that it has no wind for."""
    return [t for t in study.at(name) if all(getattr(t.configuration, key) == value for key, value in wanted.items())]


def by_month_and_hour(study: Study, station: str) -> list[str]:
    """Errors of the chosen configuration by month and by hour of the day, for a short, a middle and a long horizon."""
    trial = study.trial(station, study.chosen(station))
    days = trial.months.astype("datetime64[D]").astype(np.int64).astype(float) + 15
    calendar = Scale.of(days)
    calendar = Scale(calendar.low, calendar.high, dates=True)
    drawn = [
        _grouped(study, "NRMSE by month", calendar, days, trial.monthly_nrmse, "month", "NRMSE"),
        _grouped(study, "γ by month", calendar, days, trial.monthly_gamma, "month", "γ"),
    ]
    if study.stations[station].step < DAY:
        hours, day = np.arange(24), Marked.at([0, 6, 12, 18, 23])
        drawn.append(_grouped(study, "NRMSE by hour", day, hours, trial.hourly_nrmse, "hour of the day (UTC)", "NRMSE"))
        drawn.append(_grouped(study, "γ by hour", day, hours, trial.hourly_gamma, "hour of the day (UTC)", "γ"))
    return drawn


def _grouped(study: Study, title: str, scale: Scale, along: Array, values: Array, x: str, y: str) -> str:
    shown = sorted({0, len(study.horizons) // 2, len(study.horizons) - 1})
    plot = Plot(scale, Scale.of(values[:, shown], [1.0] * (y == "γ")), x, y)
    if y == "γ":
        plot.line([along[0], along[-1]], [1.0, 1.0], "soft")
    keys = {}
    for place, color in zip(shown, COLORS, strict=False):
        plot.line(along, values[:, place], color)
        keys[f"horizon {study.horizons[place]}"] = color
    return page.figure(title, plot.svg(title), "", keys)


def daily_cycle(study: Study) -> list[str]:
    """What memory brings against the strength of the daily cycle, month by month; and γ against it over stations."""
    memories = sorted({configuration.memory for configuration in study.configurations})
    drawn = []
    if len(memories) > 1:
        drawn.append(_memory_and_cycle(study, memories))
    if len(study.diurnal) > 1:
        horizon = study.horizons[len(study.horizons) // 2]
        h = study.horizons.index(horizon)
        strength = [study.diurnal[name].mean for name in study.diurnal]
        gamma = [study.trial(name, study.chosen(name, horizon)).gamma[h] for name in study.diurnal]
        plot = Plot(Scale.of(strength), Scale.of(gamma), "R(24 h)", f"γ, horizon {horizon}")
        plot.dots(strength, gamma, size=6)
        caption = "One dot for each station: the stronger the daily cycle, the more a model can know."
        drawn.append(page.figure("Stations", plot.svg("γ against the strength of the daily cycle"), caption))
    return drawn


def _memory_and_cycle(study: Study, memories: list[int]) -> str:
    clouds: dict[str, list[tuple[float, float]]] = {"soft": [], "ours": []}
    for name, strength in study.diurnal.items():
        day = int(DAY // study.stations[name].step)
        long = day if day in memories[1:] else memories[-1]
        for h, horizon in enumerate(study.horizons):
            kind = study.chosen(name, horizon)[1:]
            one, two = (study.trial(name, Configuration(memory, *kind)) for memory in (long, memories[0]))
            change = one.monthly_nrmse[:, h] - two.monthly_nrmse[:, h]
            _, left, right = np.intersect1d(strength.months, one.months, return_indices=True)
            color = "soft" if h in (0, len(study.horizons) - 1) else "ours"
            clouds[color] += list(zip(strength.strength[left].tolist(), change[right].tolist(), strict=True))
    points = {color: np.array(cloud).reshape(-1, 2) for color, cloud in clouds.items()}
    every = np.concatenate(list(points.values()))
    plot = Plot(Scale.of(every[:, 0]), Scale.of([0.0], every[:, 1]), "R(24 h)", "change of NRMSE")
    plot.line([every[:, 0].min(), every[:, 0].max()], [0.0, 0.0], "soft")
    for color, cloud in points.items():
        plot.dots(cloud[:, 0], cloud[:, 1], f"{color} cloud")
    caption = (
        f"Each dot is a month of one station: a memory of a day, or the longest, against {memories[0]} steps. Below "
        "zero, the longer memory is better."
    )
    keys = {"horizons between": "ours", "shortest and longest": "soft"}
    return page.figure("What memory brings in each month", plot.svg("change of NRMSE against R(24 h)"), caption, keys)


def common_choice(study: Study) -> str:
    """What is lost by one configuration for all stations, for each horizon."""
    values = np.array(
        [
            [
                study.trial(name, study.common(horizon)).nrmse[h]
                - study.trial(name, study.chosen(name, horizon)).nrmse[h]
                for h, horizon in enumerate(study.horizons)
            ]
            for name in study.stations
        ]
    )
    plot = Plot(_ahead(study), Scale.of([0.0], values), _unit(study), "difference of NRMSE")
    plot.line([study.horizons[0], study.horizons[-1]], [0.0, 0.0], "soft")
    for row in values:
        plot.dots(study.horizons, row, "soft cloud")
    plot.line(study.horizons, np.median(values, axis=0))
    caption = "The configuration that most stations choose, less that of each station. The line is the median."
    return page.figure("One for all", plot.svg("difference of NRMSE by horizon"), caption)


def retraining(study: Study, station: str) -> list[str]:
    """NRMSE of the modes in percent of that of the first, and two weeks of forecasts."""
    tests = study.retrained[station]
    first = next(iter(tests.values()))
    ratios = {mode: 100 * (test.nrmse / first.nrmse - 1) for mode, test in tests.items()}
    plot = Plot(_ahead(study), Scale.of([0.0], *ratios.values()), _unit(study), f"% beside {first.retrain}")
    for mode, ratio in ratios.items():
        plot.line(study.horizons, ratio, mode_color(mode))
        plot.dots(study.horizons, ratio, mode_color(mode), size=4)
    keys = {mode: mode_color(mode) for mode in ratios}
    caption = f"Models that are trained again every {study.every}. Below zero, they are better than {first.retrain}."
    drawn = [page.figure("NRMSE by horizon", plot.svg("NRMSE of modes of retraining"), caption, keys)]
    h = study.horizons.index(3) if 3 in study.horizons else 0
    for title, start in _weeks(tests, h).items():
        drawn.append(_week(tests, h, start, f"{title}, horizon {study.horizons[h]}"))
    return drawn


def _weeks(tests: dict[str, Backtest], h: int) -> dict[str, np.datetime64]:
    """The beginnings of a week of typical errors, and of the one in which the modes differ most."""
    modes = list(tests.values())
    first = modes[0]
    times = first.times[:, h]
    number = ((times - times[0]) // WEEK).astype(np.int64)
    known = np.isfinite(first.actual[:, h])
    full = np.bincount(number[known], minlength=number[-1] + 1)
    whole = full == full.max()
    error = np.bincount(number, np.where(known, np.square(first.actual[:, h] - first.mean[:, h]), 0.0))
    found = {"A typical week": _typical(np.where(whole, error, np.nan))}
    if len(modes) > 1:
        spread = np.ptp([test.mean[:, h] for test in modes], axis=0)
        found["The week in which they differ most"] = int(np.argmax(np.bincount(number, spread) * whole))
    return {title: times[0] + place * WEEK for title, place in found.items()}


def _typical(errors: Array) -> int:
    return int(np.nanargmin(np.abs(errors - np.nanmedian(errors))))


def _week(tests: dict[str, Backtest], h: int, start: np.datetime64, title: str) -> str:
    first = next(iter(tests.values()))
    inside = (first.times[:, h] >= start) & (first.times[:, h] < start + WEEK)
    days = first.times[inside, h].astype("datetime64[s]").astype(np.int64) / 86_400
    lines = {mode: test.mean[inside, h] for mode, test in tests.items()}
    actual = first.actual[inside, h]
    around = Scale.of(days, room=0.01)
    bands = {level: [bound[inside, h] for bound in bounds] for level, bounds in first.intervals.items()}
    upright = Scale.of(actual, *lines.values(), *(bound for bounds in bands.values() for bound in bounds))
    plot = Plot(Scale(around.low, around.high, dates=True), upright, "", first.target)
    keys = {"observed": "ink"}
    for level, (low, high) in bands.items():
        plot.band(days, low, high, "soft")
        keys[f"{level:g} % interval of {first.retrain}"] = "soft"
    for mode, line in lines.items():
        plot.line(days, line, f"thin {mode_color(mode)}")
        keys[mode] = mode_color(mode)
    plot.line(days, actual, "ink")
    return page.figure(title, plot.svg(title), "", keys)


def _ahead(study: Study) -> Marked:
    return Marked.at(study.horizons)


def _unit(study: Study) -> str:
    return f"horizon (steps of {study.step})"
