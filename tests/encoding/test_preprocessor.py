"""Columns of every kind and container become the same floats, by rules that survive a file."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

import gyrfalcon as gf
from gyrfalcon.tables import ReadingWarning, UnseenWarning

DATES = [datetime.datetime(2024, 1, 1, 6), datetime.datetime(2024, 7, 2), None, datetime.datetime(2025, 1, 1, 18)]
TABLE = {
    "area": [50.0, None, 80.0, 64.0],
    "city": ["Rome", "Oslo", None, "Rome"],
    "lift": [True, False, None, True],
    "sold": DATES,
    "rooms": [1, 2, 3, 4],
    "empty": [None, None, None, None],
    "same": [7, 7, 7, 7],
}
CONTAINERS = {
    "dict": lambda table: table,
    "arrow": pa.table,
    "pandas": pd.DataFrame,
    "pandas nullable": lambda table: pd.DataFrame(table).convert_dtypes(),
    "polars": pl.DataFrame,
}


@parametrize_with_checks([gf.TablePreprocessor()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same(container):
    table = CONTAINERS[container](TABLE)
    preprocessor = gf.TablePreprocessor().fit(table)
    names = preprocessor.get_feature_names_out().tolist()
    found = dict(zip(names, preprocessor.transform(table).T, strict=True))
    np.testing.assert_array_equal(found["area"], [50, 64, 80, 64])
    np.testing.assert_array_equal(found["area is missing"], [0, 1, 0, 0])
    np.testing.assert_array_equal(found["city = Rome"], [1, 0, 0, 1])
    np.testing.assert_array_equal(found["city is another"], [0, 1, 1, 0])  # one row each is too few
    np.testing.assert_array_equal(found["lift"], [1, 0, 1, 1])
    np.testing.assert_allclose(found["sold days"], [19723.25, 19906, 19906, 20089.75])
    np.testing.assert_allclose(found["sold cosine of year"], [np.cos(2 * np.pi * 0.25 / 366), -1, 0, 1], atol=1e-4)
    np.testing.assert_allclose(found["sold sine of day"], [1, 0, 0, -1], atol=1e-9)
    np.testing.assert_allclose(found["sold sine of week"][1], np.sin(2 * np.pi / 7))  # a Tuesday
    np.testing.assert_array_equal(found["sold is missing"], [0, 0, 1, 0])
    assert preprocessor.dropped_ == {"empty": "no row holds a value", "same": "every row holds the same"}


def test_limits_of_categories():
    common = [f"c{i}" for i in range(5) for _ in range(30 - i)]
    rare = [f"r{i}" for i in range(12)]
    cells = common + rare
    preprocessor = gf.TablePreprocessor(max_categories=4, min_share=0.05).fit({"x": cells})
    names = preprocessor.get_feature_names_out().tolist()
    assert names == ["x = c0", "x = c1", "x = c2", "x = c3", "x is another", "x log frequency"]
    found = preprocessor.transform({"x": ["c4", "r1", "c0"]})
    np.testing.assert_allclose(found, [[0, 0, 0, 0, 1, np.log(26)], [0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, np.log(30)]])
    few = gf.TablePreprocessor().fit({"x": ["a", "b", "c"] * 4})
    assert few.get_feature_names_out().tolist() == ["x = a", "x = b", "x = c"]
    with pytest.raises(ValueError, match="different in nearly every row, 30 in 30"):
        gf.TablePreprocessor().fit({"x": [str(i) for i in range(30)]})


def test_unseen_categories_are_others_and_told():
    preprocessor = gf.TablePreprocessor().fit(
        {"pair": ["a", "b"] * 9, "three": ["a", "b", "c"] * 6, "full": np.arange(18.0)}
    )
    with pytest.warns(UnseenWarning, match=r"'pair' in 2 of 3 rows, such as 'z'; .*'full' in 1 of 3 rows") as told:
        found = preprocessor.transform(
            {"pair": ["a", "z", None], "three": ["q", "a", "b"], "full": [np.nan, 1.0, 2.0], "more": [1, 2, 3]}
        )
    assert len(told) == 1
    np.testing.assert_array_equal(found[:, 0], [1, 0.5, 0.5])
    np.testing.assert_array_equal(found[:, 1:4], [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(found[:, 4], [8.5, 1, 2])


def test_kinds_that_differ_from_the_fit():
    preprocessor = gf.TablePreprocessor(categorical=["code"]).fit(
        {"code": [1, 2, 3] * 3, "n": np.arange(9.0), "day": np.arange(9).astype("datetime64[D]")}
    )
    text = {"code": ["2", "1", "3"], "n": ["1", None, "2.5"], "day": ["1970-01-02", "1970-01-05", "1970-01-03"]}
    numbers = {"code": [2.0, 1, 3], "n": [1, np.nan, 2.5], "day": np.array([1, 4, 2]).astype("datetime64[D]")}
    with pytest.warns(UnseenWarning):
        np.testing.assert_array_equal(preprocessor.transform(text), preprocessor.transform(numbers))
    for column, cell, message in (
        ("n", "abc", "'n' was to hold numbers, but row 0 holds 'abc'"),
        ("day", "abc", "'day' was to hold dates, but row 0 holds 'abc'"),
        ("day", 3.0, "'day' holds numbers and was to hold dates"),
        ("n", np.datetime64("2020-01-01"), "'n' holds dates and was to hold numbers"),
        ("n", np.inf, "'n', row 0 is inf"),
    ):
        with pytest.raises(ValueError, match=message):
            preprocessor.transform(numbers | {column: [cell] * 3})


def test_tables_that_cannot_be_used():
    fitted = gf.TablePreprocessor().fit(TABLE)
    for table, message in (
        ({}, "no columns"),
        ({"a": [1, 2], "b": [1]}, "different lengths"),
        ({"a": []}, "no rows"),
        ({"a": [1]}, "one sample"),
        ({"a": [1, 1], "b": [None, None]}, "no column is left to predict from"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "several columns called 'a'"),
        (pa.table({"a": [[1], [2]]}), "'a' holds list"),
    ):
        with pytest.raises(ValueError, match=message):
            gf.TablePreprocessor().fit(table)
    with pytest.raises(ValueError, match="no column 'area' and 4 more that the fit had: it has other"):
        fitted.transform({"other": [1]})
    for bad in ({"dtype": "int"}, {"max_categories": 0}, {"min_share": 1.5}, {"categorical": ["none"]}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            gf.TablePreprocessor(**bad).fit(TABLE)


cells = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "ü", ""])), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.datetimes(datetime.datetime(1900, 1, 1))), min_size=6, max_size=6),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(cells, min_size=1, max_size=4), st.permutations(range(6)))
def test_a_file_keeps_the_rules_and_rows_do_not_mix(tmp_path_factory, columns, order):
    table = {f"c{i}": column for i, column in enumerate(columns)} | {"x": np.arange(6.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        preprocessor = gf.TablePreprocessor().fit(table)
        features = preprocessor.transform(table)
        assert np.isfinite(features).all()
        path = tmp_path_factory.mktemp("rules") / "rules.safetensors"
        preprocessor.save(path)
        again = gf.load(path)
        np.testing.assert_array_equal(again.transform(table), features)
        assert again.get_feature_names_out().tolist() == preprocessor.get_feature_names_out().tolist()
        mixed = {name: [column[row] for row in order] for name, column in table.items()}
        np.testing.assert_array_equal(preprocessor.transform(mixed), features[order])


def test_dates_of_any_age_and_numbers_of_any_size():
    ages = np.array([0, 10**9, 10**12])  # the last is millions of days away: too many microseconds for 64 bits
    days = ages * 86_400 // 86_400
    for cells in (pa.array(ages * 86_400, pa.timestamp("s")), (ages * 86_400).astype("datetime64[s]")):
        table = {"sold": pa.chunked_array([cells]) if isinstance(cells, pa.Array) else cells, "n": np.arange(3)}
        found = gf.TablePreprocessor().fit(table)
        np.testing.assert_array_equal(found.transform(table)[:, 0], days)
    numbers = gf.TablePreprocessor().fit({"n": np.arange(9.0)})
    for text in ("1e999", " inf", "abc"):
        with pytest.raises(ValueError, match=f"'n' was to hold numbers, but row 1 holds '{text}'"):
            numbers.transform({"n": ["1", text]})


def test_a_text_that_makes_numbers_text_is_named():
    cells = [f"{i}.5" for i in range(30)]
    cells[20] = "3,5"
    with pytest.warns(ReadingWarning, match="1 cell counts as missing, such as '3,5'"):
        found = gf.TablePreprocessor().fit({"n": cells, "x": np.arange(30)})
    assert found.get_feature_names_out().tolist() == ["n", "n is missing", "x"]
    cells[21:23] = "few", "many"  # less than 95 % are numbers
    dropped = gf.TablePreprocessor().fit({"n": cells, "x": np.arange(30)}).dropped_
    assert dropped == {"n": "text that is different in nearly every row, 30 in 30, such as '3,5'"}


def test_the_median_of_numbers_near_the_largest_there_are():
    table = {"constant": [1e308] * 4, "huge": [1.5e308, None, 1.7e308, 1.2e308]}
    preprocessor = gf.TablePreprocessor().fit(table)
    assert preprocessor.dropped_ == {"constant": "every row holds the same"}
    assert preprocessor.transform(table)[1].tolist() == [1.5e308, 1.0]
    rule = gf.TablePreprocessor().fit({"x": [1.6e308, 1.7e308, 1.2e308, 1.75e308, None]}).rules_[0]
    assert rule.median == pytest.approx(1.65e308, rel=1e-15)
