"""One HTML file about a study of forecasts."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np

from gyrfalcon.data.atomic import replacing
from gyrfalcon.forecasting import Study

from . import forecasting_figures as drawn
from . import page
from .origin import reproduction
from .page import Section
from .text import number, seconds, share


def write_forecasting_report(
    path: str | os.PathLike[str], study: Study, *, title: str = "Forecasts", reproduce: str | None = None
) -> Path:
    """Write a report on a study: one HTML file that needs no other, and no network.

    Parameters
    ----------
    path : path
        The file appears when it is complete.
    study : Study
    title : str
    reproduce : str, optional
        The command that made the study; some lines of Python by default.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf, tempfile
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(1500)
    >>> x = np.sin(np.arange(1500) / 4) + np.random.default_rng(0).normal(size=1500)
    >>> series = gf.forecasting.Series({"t": hours, "x": x}, time="t")
    >>> found = gf.forecasting.study(series, horizons=[1, 6], memories=[2, 12], models=["linear"], every="7D")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = gf.report.write_forecasting_report(f"{folder}/x.html", found)
    ...     "persistence" in path.read_text(encoding="utf-8")
    True
    """
    sections = [_accuracy(study), _memory(study), _designs(study), _calendar(study), _cycle(study), _retraining(study)]
    sections += [_stations(study), _grid(study), _origin(study, reproduce)]
    names = list(study.stations)
    where = names[0] if len(names) == 1 else f"{len(names):,} stations"
    today = datetime.datetime.now().astimezone().date().isoformat()
    subtitle = f"{where} · {len(study.trials) * len(study.horizons):,} models · steps of {study.step} · {today}"
    present = [section for section in sections if section is not None]
    text = page.document(title, subtitle, present, lead=_summary(study))
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _summary(study: Study) -> str:
    trials = drawn.chosen_trials(study)
    gamma = np.mean([trial.gamma for trial in trials], axis=0)
    best = int(np.argmin(gamma))
    cards = [
        (
            f"NRMSE, horizon {horizon}",
            number(np.mean([trial.nrmse[h] for trial in trials]), 3),
            f"persistence {number(np.mean([trial.nrmse[h] / trial.gamma[h] for trial in trials]), 3)}",
        )
        for h, horizon in sorted({h: study.horizons[h] for h in (0, len(study.horizons) - 1)}.items())
    ]
    gain = f"at horizon {study.horizons[best]}"
    cards.append(("Below persistence", share(1 - float(gamma[best])), gain))
    coverage = [
        test.coverage(level).mean()
        for tests in study.retrained.values()
        for test in list(tests.values())[:1]
        for level in test.intervals
    ]
    if coverage:
        level = next(level for tests in study.retrained.values() for test in tests.values() for level in test.intervals)
        cards.append((f"In the {level:g} % interval", share(float(np.mean(coverage))), "of the test"))
    cards.append(("CPU time", seconds(sum(trial.seconds for trial in study.trials)), "of all fits and tests"))
    name = next(iter(study.stations))
    words = f"Chosen on the training series: {study.chosen(name).words}." if len(trials) == 1 else ""
    words += " Tests begin " + ", ".join(sorted({str(moment)[:10] for moment in study.splits.values()})[:3]) + "."
    return page.cards(cards) + page.paragraph(words.strip(), soft=True)


def _accuracy(study: Study) -> Section:
    rows = []
    models = dict.fromkeys(configuration.model for configuration in study.configurations)
    for h, horizon in enumerate(study.horizons):
        best = drawn.chosen_trials(study, horizon)
        still = np.mean([trial.nrmse[h] / trial.gamma[h] for trial in best])
        row = [str(horizon), f"{still:.4f}"]
        for model in models:
            row.append(f"{np.mean([trial.nrmse[h] for trial in drawn.chosen_trials(study, horizon, model)]):.4f}")
        words = best[0].configuration.words if len(best) == 1 else study.common(horizon).words
        rows.append([*row, f"{np.mean([trial.gamma[h] for trial in best]):.3f}", words])
    chosen = "chosen on the training series" if len(study.stations) == 1 else "chosen at most stations"
    heads = ["horizon", "persistence", *models, "γ", chosen]
    body = page.paragraph(
        "NRMSE is √(Σ (s − ŝ)² / Σ s²), and γ the error over that of persistence from the same origins. "
        "Memory and design are chosen by errors on the last blocks of the training series, never by the test."
    )
    table = page.table(heads, rows, words=(len(heads) - 1,))
    return Section("Accuracy", body + page.figures(drawn.errors_by_horizon(study)) + table)


def _memory(study: Study) -> Section | None:
    if len({configuration.memory for configuration in study.configurations}) < 2:
        return None
    figures = [*drawn.memory_by_horizon(study), drawn.gain_of_memory(study)]
    return Section("Memory", page.figures(figures))


def _designs(study: Study) -> Section | None:
    figures = drawn.design_differences(study)
    words = "s is the speed, and zm are the zonal and meridional components of the wind."
    text = page.paragraph(words) if len(figures) > 1 else ""
    return Section("Designs", text + page.figures(figures)) if figures else None


def _calendar(study: Study) -> Section:
    name = next(iter(study.stations))
    words = f"{name}: {study.chosen(name).words}, by the stamps that are forecast."
    return Section("Months and hours", page.paragraph(words) + page.figures(drawn.by_month_and_hour(study, name)))


def _cycle(study: Study) -> Section | None:
    if not study.diurnal:
        return None
    strengths = [found.mean for found in study.diurnal.values()]
    words = (
        "R(24 h) is the autocorrelation of the target after a day, inside windows of five days. Its mean over the test "
        f"is {number(float(np.mean(strengths)), 3)}."
    )
    return Section("Daily cycle", page.paragraph(words) + page.figures(drawn.daily_cycle(study)))


def _retraining(study: Study) -> Section | None:
    name = next(iter(study.stations))
    tests = study.retrained.get(name)
    if not tests:
        return None
    rows = []
    for mode, test in tests.items():
        months = test.by_month()
        deviations = [np.std(months["nrmse"][months["horizon"] == horizon]) for horizon in study.horizons]
        errors = zip(test.nrmse, deviations, strict=True)
        rows.append([mode, *(f"{error:.4f} ± {deviation:.3f}" for error, deviation in errors)])
    table = page.table(["retraining", *(f"horizon {horizon}" for horizon in study.horizons)], rows)
    words = f"{name}: {study.chosen(name).words}. NRMSE ± deviation of months; differences below it are small."
    return Section("Retraining", page.paragraph(words) + table + page.figures(drawn.retraining(study, name)))


def _stations(study: Study) -> Section | None:
    if len(study.stations) < 2:
        return None
    rows = []
    for name in study.stations:
        trial = study.trial(name, study.chosen(name))
        strength = number(study.diurnal[name].mean, 3) if name in study.diurnal else "–"
        gammas = [f"{gamma:.3f}" for gamma in trial.gamma]
        rows.append([name, trial.configuration.words, strength, *gammas])
    heads = ["station", "chosen", "R(24 h)", *(f"γ, {horizon}" for horizon in study.horizons)]
    table = page.table(heads, rows, words=(0, 1))
    return Section("Stations", table + page.figures([drawn.common_choice(study)]))


def _grid(study: Study) -> Section:
    rows = []
    for configuration in study.configurations:
        found = [trial.nrmse for trial in study.trials if trial.configuration == configuration]
        rows.append([configuration.words, *(f"{error:.4f}" for error in np.mean(found, axis=0))])
    heads = ["NRMSE", *(f"horizon {horizon}" for horizon in study.horizons)]
    ours = study.chosen(next(iter(study.stations))).words if len(study.stations) == 1 else ""
    return Section("All models", page.table(heads, rows, ours=ours))


def _origin(study: Study, command: str | None) -> Section:
    configurations = study.configurations
    lists = {
        "horizons": list(study.horizons),
        "memories": sorted({configuration.memory for configuration in configurations}),
        "designs": list(dict.fromkeys(configuration.design for configuration in configurations)),
        "models": list(dict.fromkeys(configuration.model for configuration in configurations)),
        "split": str(next(iter(study.splits.values()))),
        "retrain": list(next(iter(study.retrained.values()), {})),
        "every": study.every,
    }
    if command is None:
        words = "".join(f"    {name}={value!r},\n" for name, value in lists.items())
        command = f"import gyrfalcon as gf\n\nfound = gf.forecasting.study(\n    stations,\n{words})\nfound.report()"
    fitted = {name: repr(series) for name, series in list(study.stations.items())[:20]}
    return reproduction(command, fitted)
