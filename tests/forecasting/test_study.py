"""Studies: every trial is what a forecaster finds by itself, choices see no test, and a killed study goes on."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.checkpoints import CheckpointError
from gyrfalcon.forecasting import Configuration, KernelForecaster, Series, Trial, study
from reference.forecasting import START, autoregression, make

GIVEN = {"n_centers": 30, "length_scale": 1.0, "decay": 0.5, "penalty": 1e-4, "random_state": 0}
GRID = {"horizons": [1, 3], "memories": [2, 6], "every": "7D", "forecaster": KernelForecaster(**GIVEN)}


@pytest.fixture(scope="module")
def found():
    return study({"a": make(1500, holes=[700]), "b": make(1300, seed=4)}, **GRID)


def test_trials_are_what_forecasters_find(found):
    assert len(found.trials) == 2 * 2 * 3 * 2
    assert len(found.table()["nrmse"]) == 2 * len(found.trials)
    series, split = found.stations["a"], found.splits["a"]
    assert split == series.times[int(0.75 * len(series))]
    for kind, options in (("kernel", GIVEN), ("linear", {"penalty": 1e-4})):
        configuration = Configuration(6, "zm->zm", kind)
        model = KernelForecaster([1, 3], 6, "zm->zm", model=kind, **options).fit(series[:split])
        test = model.backtest(series[split:])
        trial = found.trial("a", configuration)
        np.testing.assert_array_equal(trial.nrmse, test.nrmse)
        np.testing.assert_array_equal(trial.gamma, test.gamma)
        np.testing.assert_allclose(trial.validation**2, np.mean(model.errors_**2, axis=0), rtol=1e-12)
        months = test.by_month()
        one = months["horizon"] == 3
        np.testing.assert_array_equal(trial.months, months["month"][one])
        np.testing.assert_array_equal(trial.monthly_gamma[:, 1], months["gamma"][one])
        hours = test.by_hour()
        np.testing.assert_array_equal(trial.hourly_nrmse[:, 0], hours["nrmse"][hours["horizon"] == 1])
    best = found.chosen("a")
    assert set(found.retrained["a"]) == {"static", "online", "incremental", "online-90D"}
    np.testing.assert_array_equal(found.retrained["a"]["static"].nrmse, found.trial("a", best).nrmse)
    assert found.diurnal["a"].mean == gf.forecasting.diurnal_strength(series[split:]).mean
    assert "Study of 48 models, 2 stations" in repr(found)


def test_choices_see_no_test(found):
    """The end of a series does not change what is chosen, only what it is worth."""
    series, split = found.stations["a"], found.splits["a"]
    values = series.values.copy()
    values[series.times >= split] *= np.random.default_rng(0).normal(size=(int((series.times >= split).sum()), 1))
    changed = Series.of(series.times, values, series.names, target=series.target, step=series.step, wind=series.wind)
    again = study({"a": changed}, **GRID | {"retrain": []})
    for trial, other in zip(found.at("a"), again.at("a"), strict=True):
        np.testing.assert_array_equal(trial.validation, other.validation)
        assert (trial.nrmse != other.nrmse).all()
    assert again.chosen("a") == found.chosen("a")


def test_the_least_error_is_chosen(found):
    for model in (None, "linear"):
        trials = [trial for trial in found.at("b") if model in (None, trial.configuration.model)]
        errors = [trial.validation[1] for trial in trials]
        assert found.chosen("b", 3, model=model) == trials[int(np.argmin(errors))].configuration
    overall = found.chosen("b")
    worth = {trial.configuration: np.prod(trial.validation) for trial in found.at("b")}
    assert worth[overall] == min(worth.values())
    votes = [found.chosen(name, 1) for name in "ab"]
    assert found.common(1) in votes
    for call, match in (
        (lambda: found.chosen("c"), "no station 'c'"),
        (lambda: found.chosen("a", 2), "horizon=2 was not tried"),
        (lambda: found.chosen("a", model="tree"), "'tree' was not tried"),
        (lambda: found.trial("a", Configuration(3, "s->s", "kernel")), "was not tried"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_a_killed_study_goes_on(found, tmp_path, monkeypatch):
    stations, options = dict(found.stations), GRID | {"checkpoint": tmp_path / "kept"}
    run, backtest, calls = Trial.run, KernelForecaster.backtest, []
    stop = {"after": 15}  # in the second station

    def stopping(cls, *args):
        if len(calls) == stop["after"]:
            raise KeyboardInterrupt
        calls.append(args[:2])
        return run(*args)

    monkeypatch.setattr(Trial, "run", classmethod(stopping))
    with pytest.raises(KeyboardInterrupt):
        study(stations, **options)
    assert len(calls) == 15
    stop["after"] = -1
    modes = []

    def killed_later(self, *args, retrain="static", **settings):
        if retrain == "incremental" and modes == ["online"]:
            raise KeyboardInterrupt
        if settings.get("checkpoint") is not None:
            modes.append(retrain)
        return backtest(self, *args, retrain=retrain, **settings)

    monkeypatch.setattr(KernelForecaster, "backtest", killed_later)
    with pytest.raises(KeyboardInterrupt):
        study(stations, **options)
    assert len(calls) == 24
    monkeypatch.setattr(KernelForecaster, "backtest", backtest)
    again = study(stations, **options)
    assert len(calls) == 24  # nothing was tried twice
    for one, two in zip(again.trials, found.trials, strict=True):
        assert one.configuration == two.configuration
        for name in ("nrmse", "gamma", "validation", "months", "monthly_nrmse", "hourly_gamma"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name in "ab":
        for mode, test in found.retrained[name].items():
            kept = again.retrained[name][mode]
            np.testing.assert_array_equal(kept.mean, test.mean)
            np.testing.assert_array_equal(kept.times, test.times)
            np.testing.assert_array_equal(kept.intervals[90.0][1], test.intervals[90.0][1])
            assert kept.retrain == mode
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []


def test_another_study_does_not_go_on(tmp_path, monkeypatch):
    series = make(900)
    options = GRID | {"checkpoint": tmp_path, "retrain": []}
    monkeypatch.setattr(gf.forecasting.study_files.Kept, "clear", staticmethod(lambda *_: None))
    study(series, **options)
    with pytest.raises(CheckpointError, match="differs in the series"):
        study(make(900, seed=3), **options)
    other = Series.of(series.times, series.values, series.names, target="u", step=series.step, wind=series.wind)
    with pytest.raises(CheckpointError, match="differs in the series"):
        study(other, **options)
    with pytest.raises(CheckpointError, match="differs in the grid"):
        study(series, **options | {"memories": [2, 7]})


def test_what_makes_no_sense_is_refused():
    series = make(400)
    for options, match in (
        ({"memories": []}, "memories must be a list of different values"),
        ({"horizons": [1, 1]}, "horizons must be a list of different values"),
        ({"models": ["persistence"]}, "models must hold 'linear' and 'kernel'"),
        ({"designs": "s->s"}, "designs must be a list"),
        ({"retrain": ["daily"]}, "retrain must be"),
        ({"every": "often"}, "every must be a number"),
        ({"split": "soon"}, "'soon' is not a time"),
        ({"split": "2030"}, "is empty"),
    ):
        with pytest.raises(ValueError, match=match):
            study(series, **GRID | options)
    for wrong in ({}, {"a": 3}, [("a", 3)]):
        with pytest.raises((TypeError, ValueError)):
            study(wrong)


def test_one_channel_and_days():
    """Without a wind there is one design, and without hours there is no daily cycle."""
    x = autoregression(900)
    series = Series({"t": START.astype("M8[D]") + np.arange(900), "x": x}, time="t")
    found = study(series, horizons=[1], memories=[2], models=["linear"], split="2019", retrain=["static"])
    assert found.configurations == (Configuration(2, "s->s", "linear"),)
    assert found.diurnal == {}
    assert found.splits["x"] == np.datetime64("2019-01-01")
    assert found.step == "1D"
