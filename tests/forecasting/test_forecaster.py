"""Forecasters: against dense solutions and analytic errors, by the manners of scikit-learn, and through model files."""

import numpy as np
import pytest
from sklearn.base import clone

import gyrfalcon as gf
from gyrfalcon.forecasting import KernelForecaster, Series
from gyrfalcon.forecasting.folds import blocks_of
from reference import forecasting as oracle
from reference.forecasting import FAST, START, autoregression, make


@pytest.mark.parametrize("design", ["s->s", "zm->s", "zm->zm", "s+zm->s"])
@pytest.mark.parametrize("difference", [True, False])
def test_forecasts_are_those_of_dense_least_squares(design, difference):
    series = make(400, holes=[90, 91, 250])
    # A rough kernel: k(C, C) of a smooth one is singular in float64, and the jitter of its whitening would be seen.
    options = FAST | {"kernel": "matern", "length_scale": 0.5}
    model = KernelForecaster(design=design, difference=difference, random_state=0, **options).fit(series)
    inputs = {"s->s": ["speed"], "zm->s": ["u", "v"], "zm->zm": ["u", "v"], "s+zm->s": ["speed", "u", "v"]}[design]
    outputs = ["u", "v"] if design == "zm->zm" else ["speed"]
    rows, lags, _ = oracle.windows(series.ticks, series.columns(inputs), 3, [1, 3])
    ahead = series.columns(outputs)[rows[:, None] + [1, 3]].reshape(len(rows), -1)
    base = np.tile(series.columns(outputs)[rows], 2) * difference
    kernel = model.kernel_
    beta, intercept = oracle.ridge(kernel(lags, model.centers_), kernel(model.centers_), ahead - base, 1e-4)
    found = kernel(lags, model.centers_) @ beta + intercept + base
    if design == "zm->zm":
        found = np.hypot(found[:, ::2], found[:, 1::2])
    forecast = model.predict(origin=series.times[rows])
    np.testing.assert_allclose(forecast.mean, found, rtol=1e-6)
    np.testing.assert_array_equal(forecast.times[:, 1] - forecast.origins, np.timedelta64(3, "h"))


@pytest.mark.parametrize(("scale", "digits"), [(1.0, 4.0), (0.5, 7.0), (0.12, 10.0)])
def test_smooth_kernels_lose_what_their_condition_number_says(scale, digits):
    """Of the jitter of a whitening, 1e-10, a hundredth stays: forecasts are off by up to 1e-12 over the least
    eigenvalue of k(C, C), about 1e-8, 1e-5 and 1e-2 here. All of the jitter would be seen. In arithmetic of 60 digits
    (mpmath), the oracle is within 5e-10 of the truth in the first of these cases, and closer in the others."""
    series = make(400, holes=[90, 91, 250])
    model = KernelForecaster(design="s->s", random_state=0, **FAST | {"length_scale": scale}).fit(series)
    rows, lags, ahead = oracle.windows(series.ticks, series.columns(["speed"]), 3, [1, 3])
    base = series.columns(["speed"])[rows]
    kernel, centers = model.kernel_, model.centers_
    beta, intercept = oracle.ridge(kernel(lags, centers), kernel(centers), ahead - base, 1e-4)
    found = model.predict(origin=series.times[rows]).mean
    off = np.abs(found / (kernel(lags, centers) @ beta + intercept + base) - 1).max()
    assert off < 1e-12 / np.linalg.eigvalsh(kernel(centers))[0] + 1e-9
    assert -np.log10(off) > digits


def test_an_autoregression_is_forecast_as_well_as_can_be():
    """Within 1 % of the error of the best forecast, which knows the coefficients; 60,000 values know it to 0.3 %."""
    horizons = [1, 2, 3, 6, 12]
    x = autoregression(120_000)
    series = Series({"t": START + np.arange(len(x)), "x": x}, time="t")
    half = series.times[60_000]
    model = KernelForecaster(horizons, memory=4, model="linear").fit(series[:half])
    test = model.backtest(series[half:])
    deviations = oracle.autoregression_deviations(1.2, -0.5, horizons)
    truth = deviations / np.sqrt(np.mean(x[60_000:] ** 2))
    np.testing.assert_allclose(test.nrmse, truth, rtol=0.01)
    kernel = KernelForecaster(horizons, memory=4, n_centers=50, random_state=0).fit(series[: series.times[8000]])
    np.testing.assert_allclose(kernel.backtest(series[half:]).nrmse, truth, rtol=0.01)


def test_tuning_sees_no_stamp_of_what_it_holds_out():
    series = make(900, holes=[100, 400, 401])
    rows = series.windows(5, 4)
    labels, count = blocks_of(rows, 5, 9)
    assert count == 5
    for place in range(count):
        held = rows[labels == 2 * place]
        purged = [2 * place, 2 * place + 1, 2 * place - 1]
        known = rows[~np.isin(labels, purged)]
        stamps = [set((part[:, None] + np.arange(-4, 5)).ravel().tolist()) for part in (held, known)]
        assert not stamps[0] & stamps[1]
        before = rows[labels < 2 * place - 1]
        assert len(held) > 100
        assert place == 0 or before.max() + 4 < held.min() - 4
    with pytest.raises(ValueError, match="too few for folds"):
        blocks_of(np.arange(71), 5, 9)


def test_what_is_chosen_beats_what_is_given_badly():
    series = make(1500)
    chosen = KernelForecaster([1, 2], memory=4, n_centers=50, random_state=0).fit(series[:"2018-02-10"])
    bad = KernelForecaster([1, 2], memory=4, n_centers=50, length_scale=0.05, decay=0.0, penalty=1e-9, random_state=0)
    bad.fit(series[:"2018-02-10"])
    assert (chosen.backtest(series["2018-02-10":]).nrmse < 0.9 * bad.backtest(series["2018-02-10":]).nrmse).all()
    again = clone(chosen).fit(series[:"2018-02-10"])
    np.testing.assert_array_equal(again.predict().mean, chosen.predict().mean)
    assert chosen.length_scale_ > 0
    assert chosen.penalties_.shape == (2,)


def test_intervals_hold_their_coverage():
    """8,000 values know a coverage of 90 % to 0.5 %, and errors of neighboring origins are correlated."""
    x = autoregression(24_000, seed=3)
    series = Series({"t": START + np.arange(len(x)), "x": x}, time="t")
    half = series.times[12_000]
    model = KernelForecaster([1, 4], memory=3, model="linear").fit(series[:half])
    test = model.backtest(series[half:], level=[50, 90])
    for level in (50, 90):
        np.testing.assert_allclose(test.coverage(level), level / 100, atol=0.02)
    forecast = model.predict(level=[80, 95])
    (low, high), (lower, higher) = forecast.intervals[80], forecast.intervals[95]
    assert (lower < low).all()
    assert (low < forecast.mean).all()
    assert (forecast.mean < high).all()
    assert (high < higher).all()
    assert {"lower_80", "upper_95"} <= set(forecast.table())
    with pytest.raises(ValueError, match="level=70 was not asked for"):
        test.coverage(70)
    for wrong in (0, 100, "90", True):
        with pytest.raises((ValueError, TypeError)):
            model.predict(level=wrong)


def test_a_speed_is_not_negative():
    model = KernelForecaster(random_state=0, **FAST).fit(make(600))
    lower, _ = model.predict(level=99.9).intervals[99.9]
    assert (lower >= 0).all()


def test_updates_are_fits_of_everything():
    series = make(900, holes=[300, 301])
    cut = series.times[500]
    whole = KernelForecaster(random_state=0, **FAST).fit(series[:cut])
    parts = clone(whole).fit(series[:cut]).update(series[cut : series.times[700]]).update(series[series.times[700] :])
    rows = parts.problem_.training(series)
    assert parts.n_windows_ == parts.moments_.count == len(rows)
    X, Y = parts.problem_.features(series, rows), parts.problem_.targets(series, rows)
    moments = parts.basis_.moments(X, Y, whole.moments_.origin)
    np.testing.assert_allclose(parts.moments_.second, moments.second, rtol=1e-10, atol=1e-9)
    beta, intercept, _ = moments.solve(1e-4)
    found = gf.KernelMatrix(parts.kernel_, X.take([-1]), parts.centers_) @ beta + intercept
    origin = series.times[rows[-1]]
    np.testing.assert_allclose(parts.predict(origin=origin).mean, found + series.channel("speed")[rows[-1]], rtol=1e-8)


@pytest.mark.parametrize("kind", ["kernel", "linear", "persistence"])
def test_model_files_go_on_where_they_were(tmp_path, kind):
    series = make(700)
    cut, end = series.times[500], series.times[600]
    options = {"horizons": np.array([1, 3]), "memory": 3, "calendar": ["day"], "exogenous": None, "random_state": 0}
    options |= {"n_centers": 30, "penalty": 1e-3}
    model = KernelForecaster(model=kind, **options).fit(series[:cut])
    model.save(tmp_path / "wind.safetensors")
    again = gf.load(tmp_path / "wind.safetensors")
    assert again.get_params()["horizons"] == [1, 3]
    np.testing.assert_array_equal(again.predict(level=80).mean, model.predict(level=80).mean)
    np.testing.assert_array_equal(again.predict(level=80).intervals[80][0], model.predict(level=80).intervals[80][0])
    later = series[cut:end]
    for retrain in ("static", "incremental"):
        tests = [one.backtest(later, retrain=retrain, every="1D") for one in (model, again)]
        np.testing.assert_allclose(tests[0].mean, tests[1].mean, rtol=1e-12)
    if kind != "persistence":
        with pytest.raises(ValueError, match="keeps only the end"):
            again.backtest(later, retrain="online")
    np.testing.assert_allclose(again.update(later).predict().mean, model.update(later).predict().mean, rtol=1e-12)


def test_spatial_inputs_and_calendars_are_seen():
    rng = np.random.default_rng(0)
    far = rng.normal(size=2001)
    x = np.concatenate([[0.0], far[:-1]]) + 0.1 * rng.normal(size=2001)  # the other station, an hour later
    series = Series({"t": START + np.arange(2001), "x": x, "far": far}, time="t", target="x")
    both = KernelForecaster([1], memory=2, model="linear", exogenous=["far"]).fit(series)
    alone = KernelForecaster([1], memory=2, model="linear").fit(series)
    assert both.score(series) > 0.95
    assert alone.score(series) < 0.1
    assert clone(both).set_params(exogenous="all").fit(series).score(series) == both.score(series)
    daily = np.sign(np.sin(2 * np.pi * (np.arange(2001) + 0.5) / 24)) + 0.3 * rng.normal(size=2001)
    series = Series({"t": START + np.arange(2001), "x": daily}, time="t")
    told, untold = (
        KernelForecaster([6], memory=1, calendar=calendar, n_centers=60, random_state=0).fit(series).score(series)
        for calendar in (["day"], None)
    )
    assert told > untold + 0.3


def test_what_makes_no_sense_is_refused():
    series = make(300)
    for options, match in (
        ({"model": "tree"}, "model must be"),
        ({"memory": 0}, "memory must be a whole number of at least 1"),
        ({"horizons": []}, "horizons must be different"),
        ({"horizons": [1, 1]}, "horizons must be different"),
        ({"horizons": [0]}, "horizons must be a whole number"),
        ({"design": "z->m"}, "design must be"),
        ({"calendar": "day"}, "calendar must be a list"),
        ({"calendar": ["moon"]}, "calendar must be a list"),
        ({"exogenous": "u"}, "exogenous must be None"),
        ({"exogenous": ["w"]}, "no channel 'w'"),
        ({"exogenous": ["u"]}, "already"),
        ({"penalty": -1}, "penalty must be"),
        ({"decay": "fast"}, "decay must be"),
        ({"remoteness": "far"}, "remoteness must be"),
        ({"remoteness": 2.0}, "goes with exogenous channels"),
        ({"length_scale": 0}, "length_scale must be"),
        ({"kernel": "cosine"}, "kernel must be"),
        ({"kernel": gf.kernels.Gaussian(2.0)}, "length_scale goes with"),
        ({"model": "linear"}, "length_scale goes with"),
        ({"folds": 1}, "folds must be"),
        ({"memory": 400}, "no window of 403 stamps"),
        ({"memory": 60, "penalty": "auto"}, "too few for folds"),
    ):
        with pytest.raises(ValueError, match=match):
            KernelForecaster(**FAST | options).fit(series)
    with pytest.raises(TypeError, match="must be a gyrfalcon"):
        KernelForecaster().fit(np.zeros((10, 2)))
    plain = Series({"t": START + np.arange(50), "x": np.zeros(50)}, time="t")
    with pytest.raises(ValueError, match="needs a wind"):
        KernelForecaster(**FAST | {"design": "zm->s"}).fit(plain)
    model = KernelForecaster(random_state=0, **FAST).fit(make(300, holes=[298]))
    with pytest.raises(ValueError, match="have a gap or NaN"):
        model.predict()
    with pytest.raises(ValueError, match="is not a stamp"):
        model.predict(origin="2018-01-01T00:30")
    with pytest.raises(ValueError, match="begin before the series"):
        model.predict(origin=["2018-01-02T00:00", "2018-01-01T01:00"])
    short = KernelForecaster(random_state=0, **FAST).fit(make(40))
    with pytest.raises(ValueError, match="too few for blocks"):
        short.predict(level=90)


def neighbors(seed=0, count=1500, lead=2):
    """A series, one that knows it two steps before, and one that knows nothing."""
    rng = np.random.default_rng(seed)
    x = np.zeros(count + lead)
    for t in range(1, len(x)):
        x[t] = 0.8 * np.sin(1.5 * x[t - 1]) + 0.4 * rng.normal()
    times = np.datetime64("2020-01-01T00") + np.arange(count)
    table = {"t": times, "x": x[:count], "early": x[lead:] + 0.05 * rng.normal(size=count)}
    return Series(table | {"noise": rng.normal(size=count)}, time="t", target="x")


def test_exogenous_channels_count_as_much_as_they_say():
    series = neighbors()
    train, test = series[: series.times[1000]], series[series.times[1000] :]
    options = {"n_centers": 100, "random_state": 0}
    errors, models = {}, {}
    for name, more in (
        ("alone", {}),
        ("useful", {"exogenous": ["early"]}),
        ("useless", {"exogenous": ["noise"]}),
        ("useless, as near", {"exogenous": ["noise"], "remoteness": 1.0}),
    ):
        models[name] = KernelForecaster([1, 2], 3, **options, **more).fit(train)
        errors[name] = models[name].backtest(test).nrmse
    assert (errors["useful"] < 0.6 * errors["alone"]).all()
    assert models["useful"].remoteness_ <= 4
    assert models["useless"].remoteness_ == 1e3
    np.testing.assert_allclose(errors["useless"], errors["alone"], rtol=0.02)
    assert errors["useless"].mean() <= errors["useless, as near"].mean()
    assert models["useless, as near"].remoteness_ == 1.0


def test_remoteness_stretches_the_length_scales_of_exogenous_channels():
    series = neighbors(count=400)
    settings = {"length_scale": 1.0, "decay": 0.5, "penalty": 1e-3, "n_centers": 20, "random_state": 0}
    near, far = (
        KernelForecaster([1], 3, exogenous=["early", "noise"], calendar=["day"], remoteness=r, **settings).fit(series)
        for r in (1.0, 4.0)
    )
    ratio = np.array(far.kernel_.length_scale) / np.array(near.kernel_.length_scale)
    ratio /= ratio[0]
    np.testing.assert_allclose(ratio, [1, 4, 4, 1, 4, 4, 1, 4, 4, 1, 1], rtol=1e-12)
