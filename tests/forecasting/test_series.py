"""Series: every gap is known, windows span none, and stamps that cannot be read are refused by name."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gyrfalcon as gf
from gyrfalcon.forecasting import LaggedSource, Series
from gyrfalcon.forecasting.designs import Design
from gyrfalcon.forecasting.problem import Problem
from reference import forecasting as oracle

START = np.datetime64("2018-01-01T00", "h")


def series_of(ticks, values, names=("x", "y")):
    table = {"t": START + np.asarray(ticks)} | {name: values[:, place] for place, name in enumerate(names)}
    return Series(table, time="t", target=names[0], step="1h")


@st.composite
def broken(draw):
    """Random stamps of a grid, with NaN here and there."""
    present = draw(hnp.arrays(bool, st.integers(1, 60), elements=st.sampled_from([True] * 9 + [False])))
    present[0] = True
    ticks = np.flatnonzero(present)
    values = np.random.default_rng(len(ticks)).normal(size=(len(ticks), 2))
    values[draw(hnp.arrays(bool, values.shape, elements=st.sampled_from([False] * 15 + [True])))] = np.nan
    return ticks, values


@settings(max_examples=150, deadline=None)
@given(broken(), st.integers(1, 5), st.sets(st.integers(1, 6), min_size=1, max_size=3))
def test_windows_are_those_of_a_loop(stamps, memory, horizons):
    ticks, values = stamps
    horizons = tuple(sorted(horizons))
    origins, lags, targets = oracle.windows(ticks, values, memory, horizons)
    series = series_of(ticks, values)
    problem = Problem(Design(("x", "y"), ("x",), "x"), memory, horizons, difference=False)
    found = problem.training(series)
    np.testing.assert_array_equal(found, origins)
    np.testing.assert_array_equal(problem.features(series, found).to_array(), lags)
    np.testing.assert_array_equal(problem.targets(series, found), targets)


@settings(max_examples=50, deadline=None)
@given(broken(), st.integers(1, 4))
def test_what_came_later_is_never_behind_a_gap(stamps, horizon):
    ticks, values = stamps
    series = series_of(ticks, values)
    actual = Problem(Design(("x",), ("x",), "x"), 1, (horizon,)).actual(series, np.arange(len(ticks)))[:, 0]
    for row, tick in enumerate(ticks):
        between = np.isin(np.arange(tick, tick + horizon + 1), ticks).all()
        expected = values[row + horizon, 0] if between else np.nan
        np.testing.assert_array_equal(actual[row], expected)


def test_a_lagged_view_is_a_source_that_stores_nothing():
    values = np.random.default_rng(0).normal(size=(5000, 3))
    origins = np.arange(71, 5000)
    source = LaggedSource(values, origins, 72)
    assert source.shape == (4929, 216)
    dense = np.stack([values[origins - lag] for lag in range(72)], 1).reshape(len(origins), -1)
    kernel = gf.kernels.Gaussian(20.0)
    assert repr(gf.KernelMatrix(kernel, source, dense[:5])).endswith("streamed)")
    for given_rows in (source, source[10:4000]):
        rows = dense if given_rows is source else dense[10:4000]
        streamed = gf.KernelMatrix(kernel, given_rows, dense[:5]) @ np.ones(5)
        np.testing.assert_allclose(streamed, kernel(rows, dense[:5]).sum(1), rtol=1e-12)
    np.testing.assert_array_equal(source.take([7, 3]), dense[[7, 3]])
    assert source.names[:4] == ("x0", "x1", "x2", "x0[-1]")
    held = [value for value in vars(source).values() if isinstance(value, np.ndarray)]
    assert max(array.size for array in held) == values.size


def test_the_calendar_is_the_phase_of_the_origin():
    times = START + np.arange(48)
    source = LaggedSource(np.zeros((48, 1)), np.array([6, 18]), 1, times=times, calendar=["day"])
    np.testing.assert_allclose(source.to_array(), [[0, 1, 0], [0, -1, 0]], atol=1e-12)
    with pytest.raises(ValueError, match="needs the times"):
        LaggedSource(np.zeros((48, 1)), np.array([6]), 1, calendar=["day"])
    with pytest.raises(ValueError, match="'month'"):
        LaggedSource(np.zeros((48, 1)), np.array([6]), 1, times=times, calendar=["month"])
    with pytest.raises(ValueError, match="origins must lie"):
        LaggedSource(np.zeros((48, 1)), np.array([1]), 3)


def test_tables_of_every_kind_are_the_same_series(tmp_path):
    times = (START + np.arange(30)).astype("datetime64[us]")
    x = np.linspace(0, 1, 30)
    frame = pd.DataFrame({"t": times, "x": x})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    zoned = frame.assign(t=frame.t.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    text = {"t": [f"{moment}+00:00" for moment in times.astype("datetime64[m]")], "x": x}
    tables = [frame, pl.DataFrame({"t": times, "x": x}), pa.table({"t": times, "x": x}), zoned, text]
    for table in (*tables, tmp_path / "x.csv", str(tmp_path / "x.parquet")):
        series = Series(table, time="t")
        np.testing.assert_array_equal(series.times, times)
        np.testing.assert_array_equal(series.channel("x"), x)
        assert series.step == np.timedelta64(1, "h")


def test_stamps_that_cannot_be_read_are_refused_by_name():
    def refuse(times, match, **options):
        with pytest.raises(ValueError, match=match):
            Series({"t": times, "x": np.zeros(len(times))}, time="t", **options)

    hours = START + np.arange(6)
    refuse(hours[[0, 1, 3, 2, 4, 5]], r"not sorted: row 3, 2018-01-01T02:00, comes after 2018-01-01T03:00")
    refuse(hours[[0, 1, 1, 2]], r"2018-01-01T01:00 is a duplicate, in rows 1 and 2 .* clocks are set back")
    refuse(hours[[0, 1, 2, 5, 4, 0]], r"2018-01-01T00:00 is a duplicate, in rows 0 and 5")
    uneven = hours.astype("M8[m]").copy()
    uneven[4] += 7
    refuse(uneven, r"irregular: 1 of 6 stamps .* row 4, 2018-01-01T04:07")
    refuse(hours, r"irregular", step="7h")
    refuse(np.array(["2018-01-01", "NaT"], "M8[h]"), "row 1 has no time stamp")
    refuse(np.arange(4.0), "holds numbers and was to hold dates")
    refuse(["2018-01-01", "soon"], "row 1: 'soon' is not a time")
    refuse(["2018-01-01T00:00", "2018-01-01T01:00Z"], "some stamps have a time zone")
    refuse(hours[:1], "give step=")
    refuse(np.array([], "M8[h]"), "no rows")
    refuse(hours, "must be a number and one of", step="an hour")


def test_local_times_when_clocks_change():
    autumn = np.datetime64("2018-10-28T00", "h") + np.arange(6)
    spring = np.datetime64("2018-03-25T00", "h") + np.arange(6)
    with pytest.raises(ValueError, match=r"row 2, 2018-10-28T02:00, is ambiguous: it occurs twice in Europe/Rome"):
        Series({"t": autumn, "x": np.zeros(6)}, time="t", timezone="Europe/Rome")
    with pytest.raises(ValueError, match=r"row 2, 2018-03-25T02:00, is skipped: it does not exist"):
        Series({"t": spring, "x": np.zeros(6)}, time="t", timezone="Europe/Rome")
    with pytest.raises(ValueError, match="'Europe/Roma'"):
        Series({"t": autumn, "x": np.zeros(6)}, time="t", timezone="Europe/Roma")
    with pytest.raises(ValueError, match="has time zones: leave it out"):
        Series({"t": ["2018-01-01T00:00Z", "2018-01-01T01:00Z"], "x": [0, 1]}, time="t", timezone="Europe/Rome")
    fine = Series({"t": np.delete(spring, 2), "x": np.zeros(5)}, time="t", timezone="Europe/Rome")
    assert fine.gaps == ()  # an hour that does not exist is not missing
    assert fine.times[0] == np.datetime64("2018-03-24T23")


def test_winds_are_vectors():
    table = {"t": START + np.arange(4), "ws": [1.0, 2.0, 3.0, 4.0], "deg": [0.0, 90.0, 180.0, 270.0]}
    wind = Series(table, time="t", speed="ws", direction="deg")
    assert wind.names == ("ws", "u", "v")
    np.testing.assert_allclose(wind.columns(["u", "v"]), [[0, -1], [-2, 0], [0, 3], [4, 0]], atol=1e-12)
    table = {"t": START + np.arange(4), "a": wind.channel("u"), "b": wind.channel("v")}
    again = Series(table, time="t", u="a", v="b")
    np.testing.assert_allclose(again.channel("speed"), wind.channel("ws"), rtol=1e-12)
    assert (again.target, again.wind) == ("speed", ("speed", "a", "b"))
    for options, match in (
        ({"u": "a"}, "go together"),
        ({"u": "a", "v": "c"}, "v='c': there is no such column"),
        ({"direction": "a"}, "direction goes with speed"),
        ({}, "target must name"),
        ({"target": "z"}, "target='z'"),
        ({"channels": ["q"]}, "no column 'q'"),
    ):
        with pytest.raises(ValueError, match=match):
            Series(table, time="t", **options)
    with pytest.raises(ValueError, match="called 'speed' already"):
        Series(table | {"speed": np.zeros(4)}, time="t", u="a", v="b")
    with pytest.raises(ValueError, match="holds category values"):
        Series(table | {"name": list("abcd")}, time="t", target="a")


def test_slices_are_half_open_and_parts_join_again():
    values = np.arange(200.0).reshape(100, 2)
    series = series_of(np.delete(np.arange(102), [50, 51]), values)
    assert [gap.missing for gap in series.gaps] == [2]
    first, rest = series[:"2018-01-02"], series["2018-01-02":]
    assert (len(first), len(rest)) == (24, 76)
    whole = first.followed_by(rest)
    np.testing.assert_array_equal(whole.values, series.values)
    assert len(series[datetime.date(2018, 1, 2) : np.datetime64("2018-01-03")]) == 24
    assert len(series["2018":"2019"]) == len(series["2018-01":]) == 100
    with pytest.raises(ValueError, match="not after"):
        rest.followed_by(first)
    with pytest.raises(ValueError, match="is empty"):
        series["2019":]
    with pytest.raises(TypeError, match="slices of time"):
        series[3]
    later = Series.of(rest.times + np.timedelta64(1, "m"), rest.values, rest.names, target="x", step=rest.step)
    with pytest.raises(ValueError, match="not on the grid"):
        first.followed_by(later)
    with pytest.raises(ValueError, match="other channels"):
        first.followed_by(series_of([40], values[:1], names=("x", "z")))
    assert "1 gap, 2 stamps missing" in repr(series)
