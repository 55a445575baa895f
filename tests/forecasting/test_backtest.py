"""Backtests: equal to refits, without leaks, and errors as their formulas say."""

import numpy as np
import pytest
from sklearn.base import clone

import gyrfalcon as gf
from gyrfalcon import checkpoints
from gyrfalcon.forecasting import KernelForecaster, Series, diurnal_strength
from gyrfalcon.forecasting.regression import Regression
from reference import forecasting as oracle
from reference.forecasting import FAST, START, autoregression, make

MODES = ["static", "incremental", "online", "online-5D"]


def split(series, at):
    return series[: series.times[at]], series[series.times[at] :]


def refit(model, history, first, stop, rows, penalty=None):
    """Forecasts from rows by moments of the windows from first to stop, made at once."""
    problem = model.problem_
    known = problem.training(history)[first:stop]
    K = gf.KernelMatrix(model.kernel_, problem.features(history, known).to_array(), model.centers_)
    moments = gf.moments.Moments.of(K, problem.targets(history, known))
    beta, intercept, _ = moments.solve(float(model.penalties_[0] if penalty is None else penalty))
    X = problem.features(history, rows).to_array()
    return problem.forecasts(history, rows, gf.KernelMatrix(model.kernel_, X, model.centers_) @ beta + intercept)


@pytest.mark.parametrize("mode", MODES)
def test_retraining_is_a_refit_of_what_was_known(mode):
    series = make(1000, holes=[350, 351, 352, 720, 721])
    train, test = split(series, 600)
    model = KernelForecaster(random_state=0, **FAST).fit(train)
    found = model.backtest(test, retrain=mode, every="36h")
    windows = model.problem_.training(series)
    moments = (found.origins - test.times[0]) // np.timedelta64(36, "h")
    assert moments.max() > 8
    for number in np.unique(moments):
        moment = test.times[0] + number * np.timedelta64(36, "h")
        moment = test.times[0] if mode == "static" else moment
        known = np.flatnonzero(series.times[windows + 3] < moment)  # the longest horizon is three hours
        first = {"online": len(known) - model.n_windows_, "online-5D": None}.get(mode, 0)
        if first is None:
            first = int(np.searchsorted(series.times[windows], moment - np.timedelta64(5, "D")))
        rows = np.searchsorted(series.times, found.origins[moments == number])
        expected = refit(model, series, first, len(known), rows)
        np.testing.assert_allclose(found.mean[moments == number], expected, rtol=1e-8)


def test_chosen_penalties_are_for_so_many_windows():
    """What is chosen for n windows is n / count times as large for count; what is given stays."""
    series = make(1000)
    train, test = split(series, 700)
    chosen = KernelForecaster(random_state=0, **FAST | {"penalty": "auto", "horizons": [1]}).fit(train)
    n, penalty = chosen.n_windows_, chosen.penalties_[0]
    np.testing.assert_allclose(chosen.penalties_of(n // 4), penalty * n / (n // 4), rtol=1e-14)
    found = chosen.backtest(test, retrain="online-5D", every="10D")
    windows = chosen.problem_.training(series)
    known = np.flatnonzero(series.times[windows + 1] < test.times[0])
    first = int(np.searchsorted(series.times[windows], test.times[0] - np.timedelta64(5, "D")))
    assert len(known) - first < 121 < n
    rows = np.searchsorted(series.times, found.origins[found.origins < test.times[240]])
    scaled = penalty * n / (len(known) - first)
    expected = refit(chosen, series, first, len(known), rows, scaled)
    np.testing.assert_allclose(found.mean[: len(rows)], expected, rtol=1e-8)
    longer = clone(chosen).fit(train).update(test)
    assert longer.n_windows_ == len(windows)
    np.testing.assert_allclose(longer.penalties_, penalty * n / len(windows), rtol=1e-12)
    given = KernelForecaster(random_state=0, **FAST).fit(train)
    assert given.penalties_of(10).tolist() == given.update(test).penalties_.tolist() == [1e-4, 1e-4]


@pytest.mark.parametrize("mode", ["incremental", "online", "online-5D"])
@pytest.mark.parametrize("kind", ["kernel", "linear"])
def test_a_killed_backtest_goes_on(mode, kind, tmp_path, monkeypatch):
    train, test = split(make(900, holes=[700]), 600)
    options = FAST if kind == "kernel" else {"horizons": [1, 3], "memory": 3, "penalty": "auto"}
    model = KernelForecaster(model=kind, random_state=0, **options).fit(train)
    level = None if mode == "online-5D" else 80  # whose intervals need more solves
    whole = model.backtest(test, retrain=mode, every="1D", level=level)
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    solved, calls = Regression.solved.__func__, []

    def killed(cls, *args):
        calls.append(args)
        if len(calls) in (3, 9):
            raise KeyboardInterrupt
        return solved(cls, *args)

    monkeypatch.setattr(Regression, "solved", classmethod(killed))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            model.backtest(test, retrain=mode, every="1D", level=level, checkpoint=tmp_path / "kept")
    with pytest.raises(checkpoints.CheckpointError, match="differs in the series"):
        model.backtest(test[: test.times[200]], retrain=mode, every="1D", checkpoint=tmp_path / "kept")
    with pytest.raises(checkpoints.CheckpointError, match="differs in retrain and every"):
        model.backtest(test, retrain=mode, every="2D", checkpoint=tmp_path / "kept")
    other = KernelForecaster(model=kind, random_state=0, **options).fit(train[: train.times[500]])
    with pytest.raises(checkpoints.CheckpointError, match="differs in the fitted model"):
        other.update(train[train.times[500] :]).backtest(test, retrain=mode, every="1D", checkpoint=tmp_path / "kept")
    calls[:] = [None] * 20
    again = model.backtest(test, retrain=mode, every="1D", level=level, checkpoint=tmp_path / "kept")
    assert len(calls) - 20 == 13 - 7  # of thirteen days, seven were done
    np.testing.assert_array_equal(again.mean, whole.mean)
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["kernel", "linear", "persistence", "chosen"])
def test_nothing_after_an_origin_changes_its_forecast(mode, kind):
    series = make(900, holes=[700])
    train, test = split(series, 600)
    options = FAST if kind in ("kernel", "chosen") else {"horizons": [1, 3], "memory": 3, "penalty": 1e-4}
    if kind == "chosen":  # penalties depend on the number of windows
        options = options | {"penalty": "auto", "design": "zm->zm", "model": "kernel"}
    model = KernelForecaster(random_state=0, **{"model": kind} | options).fit(train)
    before = model.backtest(test, retrain=mode, every="1D", level=80)
    for origin in before.origins[[0, 23, 24, 100, 170]]:
        values = test.values.copy()
        later = test.times > origin
        values[later] = values[later] * 3 + 50
        changed = Series.of(test.times, values, test.names, target=test.target, step=test.step, wind=test.wind)
        after = model.backtest(changed, retrain=mode, every="1D", level=80)
        np.testing.assert_array_equal(after.origins, before.origins)
        issued = before.origins <= origin
        np.testing.assert_array_equal(after.mean[issued], before.mean[issued])
        np.testing.assert_array_equal(after.intervals[80][1][issued], before.intervals[80][1][issued])
        assert not np.allclose(after.mean[~issued], before.mean[~issued])


def test_intervals_of_windows_are_those_of_models_of_windows():
    """Errors of the last half of the training series by models of five days each, by refits; then those that come."""
    series = make(1000, holes=[350])
    train, test = split(series, 800)
    model = KernelForecaster(random_state=0, **FAST).fit(train)
    found = model.backtest(test, retrain="online-5D", every="36h", level=80)
    windows = model.problem_.training(train)
    rows = windows[len(windows) // 2 :]
    errors = []
    for row in rows:
        period = (train.times[row] - train.times[rows[0]]) // np.timedelta64(36, "h")
        moment = train.times[rows[0]] + period * np.timedelta64(36, "h")
        stop = int((train.times[windows + 3] < moment).sum())
        first = int((train.times[windows] < moment - np.timedelta64(5, "D")).sum())
        guess = refit(model, train, first, stop, np.array([row]))
        errors.append(train.channel("speed")[row + np.array([1, 3])] - guess[0])
    lower, upper = found.intervals[80]
    later = found.actual - found.mean
    expected = oracle.moving_intervals(
        np.concatenate([train.times[rows], found.origins]), np.concatenate([errors, later]), len(rows), [1, 3], 36, 80
    )
    np.testing.assert_allclose(upper - found.mean, expected[1], rtol=1e-6)
    np.testing.assert_allclose(lower, np.maximum(found.mean + expected[0], 0), rtol=1e-6)
    usual = model.backtest(test, retrain="incremental", every="36h", level=80).intervals[80]
    assert (upper - lower).mean() > (usual[1] - usual[0]).mean()


def test_persistence_is_measured_from_the_same_origins():
    series = make(900, holes=[700, 750])
    train, test = split(series, 600)
    still = KernelForecaster(horizons=[1, 3], memory=3, model="persistence").fit(train).backtest(test)
    assert still.gamma.tolist() == [1.0, 1.0]
    model = KernelForecaster(random_state=0, **FAST).fit(train).backtest(test)
    np.testing.assert_array_equal(model.origins, still.origins)
    np.testing.assert_allclose(model.gamma, model.nrmse / still.nrmse, rtol=1e-12)
    table = model.table()
    assert len({len(column) for column in table.values()}) == 1
    one = table["horizon"] == 3
    error = table["actual"][one] - table["forecast"][one]
    np.testing.assert_allclose(model.nrmse[1] ** 2, np.sum(error**2) / np.sum(table["actual"][one] ** 2), rtol=1e-12)
    at = dict(zip(series.times.tolist(), series.channel("speed"), strict=True))
    assert all(at[time] == value for time, value in zip(table["time"].tolist(), table["actual"], strict=True))
    assert all(at[time] == value for time, value in zip(table["origin"].tolist(), table["persistence"], strict=True))
    assert "horizon   3" in repr(model)


def test_months_and_hours_add_up():
    series = make(24 * 70)
    train, test = split(series, 600)
    found = KernelForecaster(random_state=0, **FAST).fit(train).backtest(test)
    table = found.table()
    for groups, key in ((found.by_month(), "month"), (found.by_hour(), "hour")):
        assert groups["count"].sum() == len(table["time"])
        last = {name: column[-1] for name, column in groups.items()}
        labels = table["time"].astype("M8[M]") if key == "month" else (table["time"].astype("M8[h]").astype(int) % 24)
        chosen = (labels == last[key]) & (table["horizon"] == last["horizon"])
        error = np.square(table["actual"] - table["forecast"])[chosen].sum()
        still = np.square(table["actual"] - table["persistence"])[chosen].sum()
        np.testing.assert_allclose(last["gamma"], np.sqrt(error / still), rtol=1e-12)
        np.testing.assert_allclose(last["nrmse"], np.sqrt(error / np.square(table["actual"])[chosen].sum()), rtol=1e-12)
    assert sorted(set(found.by_hour()["hour"].tolist())) == list(range(24))


def test_diebold_and_mariano():
    series = make(24 * 100)
    train, test = split(series, 1200)
    model = KernelForecaster(random_state=0, **FAST).fit(train).backtest(test)
    result = model.diebold_mariano()
    assert (result.statistic < -3).all()
    assert (result.p_value < 0.01).all()
    same = model.diebold_mariano(model)
    assert same.statistic.tolist() == [0.0, 0.0]
    assert same.p_value.tolist() == [1.0, 1.0]
    # For one step ahead there are no autocovariances: the plain t statistic.
    table = {name: column[model.table()["horizon"] == 1] for name, column in model.table().items()}
    loss = np.square(table["actual"] - table["forecast"]) - np.square(table["actual"] - table["persistence"])
    plain = loss.mean() / (loss.std(ddof=1) / np.sqrt(len(loss)))
    np.testing.assert_allclose(result.statistic[0], plain, rtol=1e-10)
    other = KernelForecaster(horizons=[1], memory=3, model="persistence").fit(train).backtest(test)
    with pytest.raises(ValueError, match="other has horizons"):
        model.diebold_mariano(other)


def test_diebold_and_mariano_reject_as_often_as_they_say():
    """Two forecasts that are equally good: at 5 %, 200 tests reject 10 times, give or take 3.1."""
    hours, rng = START + np.arange(300), np.random.default_rng(0)
    rejected = 0
    for _ in range(200):
        actual, one, two = rng.normal(size=(3, 300, 1))
        tests = [
            gf.forecasting.Backtest(
                target="x",
                origins=hours,
                horizons=(1,),
                times=hours[:, None] + 1,
                mean=mean,
                actual=actual,
                persistence=actual * 0,
                retrain="static",
            )
            for mean in (one, two)
        ]
        rejected += tests[0].diebold_mariano(tests[1]).p_value[0] < 0.05
    assert 2 <= rejected <= 20


def test_backtests_refuse_what_they_cannot_do():
    series = make(700)
    train, test = split(series, 600)
    model = KernelForecaster(random_state=0, **FAST).fit(train)
    for options, match in (
        ({"retrain": "often"}, "retrain must be"),
        ({"retrain": "online-x"}, "retrain must be a number and one of"),
        ({"retrain": "online-4h"}, "use a longer duration"),
        ({"every": "0D"}, "every must be positive"),
    ):
        with pytest.raises(ValueError, match=match):
            model.backtest(test, **options)
    with pytest.raises(ValueError, match="is for models that are trained again"):
        model.backtest(test, checkpoint="here")
    with pytest.raises(TypeError, match="every must be a duration"):
        model.backtest(test, every=7)
    with pytest.raises(ValueError, match="not after"):
        model.backtest(series)


def test_a_plot_has_a_line_for_the_model_and_one_for_persistence():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    train, test = split(make(700), 600)
    axes = KernelForecaster(random_state=0, **FAST).fit(train).backtest(test).plot(pyplot.figure().gca())
    assert len(axes.lines) == 2
    pyplot.close("all")


def test_the_strength_of_the_daily_cycle():
    hours = np.arange(24 * 1000)
    wave = np.sin(2 * np.pi * hours / 24)
    sine = diurnal_strength(Series({"t": START + hours, "x": 5 + wave}, time="t"))
    np.testing.assert_allclose(sine.strength, 1.0, rtol=1e-12)
    assert sine.windows.sum() == 200
    hours = np.arange(24 * 20_000)
    noise = np.random.default_rng(0).normal(size=len(hours))
    white = diurnal_strength(Series({"t": START + hours, "x": noise}, time="t"))
    # The mean of 4,000 windows of 96 products each: a standard error of 1/√(4,000 · 96) = 0.0016.
    np.testing.assert_allclose(white.mean, -1 / 119, atol=4 * 0.0016)
    assert abs(white.mean) > 0.0016
    holes = np.delete(np.arange(24 * 20), [30])
    broken = 5 + np.sin(2 * np.pi * holes / 24)
    broken[200] = np.nan
    series = Series({"t": START + holes, "x": broken}, time="t")
    assert diurnal_strength(series).windows.tolist() == [2]  # of four, one has a gap and one NaN
    with pytest.raises(ValueError, match="must be longer"):
        diurnal_strength(series, window="1D")
    with pytest.raises(ValueError, match="whole number of steps"):
        diurnal_strength(series, lag="90min")
    with pytest.raises(ValueError, match="no whole window"):
        diurnal_strength(series, window="30D")


def test_retraining_helps_where_things_change():
    x = autoregression(4000)
    x[2000:] = -autoregression(2000, first=-1.2, seed=5)
    series = Series({"t": START + np.arange(4000), "x": x}, time="t")
    train, test = split(series, 1900)
    model = KernelForecaster([1], memory=2, model="linear").fit(train)
    errors = [
        model.backtest(test, retrain=mode, every="1D").nrmse[0] for mode in ("static", "incremental", "online-7D")
    ]
    assert errors[0] > 1.3 * errors[1] > 1.3 * errors[2]


def test_intervals_of_windows_follow_errors_that_grow():
    """Noise that is half as large again after the training series: fixed quantiles miss, moving ones soon do not."""
    rng = np.random.default_rng(0)
    x = np.zeros(9000)
    for t in range(1, len(x)):
        x[t] = 0.7 * x[t - 1] + rng.normal() * (1.5 if t >= 4000 else 1.0)
    times = np.datetime64("2020-01-01T00") + np.arange(len(x))
    train, test = split(Series({"t": times, "x": x}, time="t"), 4000)
    options = {"model": "linear", "penalty": 1e-4, "design": "s->s"}
    model = KernelForecaster([1, 4], 3, **options).fit(train)
    fixed = model.backtest(test, level=90).coverage(90)
    moving = model.backtest(test, retrain="online-20D", every="7D", level=90).coverage(90)
    assert (fixed < 0.8).all()
    assert (np.abs(moving - 0.9) < 0.03).all()
