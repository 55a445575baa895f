"""Dates and numbers as people write them are read for what they are, and what the cells leave open is told."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.encoding.columns import as_column
from gyrfalcon.encoding.formats import DateFormat, Format, NumberFormat, split_number
from gyrfalcon.encoding.inference import decimal_evidence, infer_dates, infer_formats, infer_numbers
from gyrfalcon.tables import ReadingWarning, UnseenWarning

NUMBERS = {
    "$3,380.34": 3380.34,
    "-$3,380.34": -3380.34,
    "$-5": -5,
    "(1,234.50)": -1234.5,
    "1,234,567": 1234567,
    "12,34,567.5": 1234567.5,
    "19.6%": 19.6,
    "USD 12.5": 12.5,
    "−3.5": -3.5,
    ".5": 0.5,
    "1.5e3": 1500,
}
GERMAN = {
    "1.234,56 €": 1234.56,
    "-0,5": -0.5,
    "12.345": 12345,
    "7": 7,
    "1.234.567,8": 1234567.8,
    "19,6 %": 19.6,
    "EUR 3,00": 3,
}


@pytest.mark.parametrize(("form", "cells"), [(NumberFormat(".", ","), NUMBERS), (NumberFormat(",", "."), GERMAN)])
def test_numbers_of_a_format(form, cells):
    for text, value in cells.items():
        assert form.value(text) == pytest.approx(value, rel=1e-15)
    for text in ("", "abc", "1,23,4", "12 apples", "1.2.3.4.5", "--5", "$5€", "(5", "1e999", "٣x"):
        assert math.isnan(form.value(text))


def test_spaces_and_apostrophes_between_thousands():
    for text in ("1 234 567,5", "1\u00a0234\u00a0567,5", "1\u202f234\u202f567,5"):
        assert NumberFormat(",", " ").value(text) == 1234567.5
    for text in ("1'234.5", "1’234.5"):
        assert NumberFormat(".", "'").value(text) == 1234.5


@given(
    st.decimals(-(10**9), 10**9, places=2, allow_nan=False, allow_infinity=False),
    st.sampled_from([(".", ","), (",", "."), (".", " "), (",", " "), (".", "'")]),
    st.sampled_from(["", "$", "€", "%"]),
)
def test_what_is_written_is_read(number, marks, symbol):
    decimal, thousands = marks
    text = f"{number:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands) + symbol
    assert NumberFormat(decimal, thousands, symbol).value(text) == pytest.approx(float(number), rel=1e-15)
    assert split_number(text) is not None


def reading(*cells, **options):
    return infer_formats([as_column("c", list(cells))], **options).get("c")


def test_formats_of_numbers_are_found():
    for cells, expected in (
        (("$3,380.34", "$12.00"), NumberFormat(".", ",", "$")),
        (("1.234,56 €", "7,00 €"), NumberFormat(",", ".", "€")),
        (("1,5", "2,25"), NumberFormat(",", "")),
        (("19.6%", "7%"), NumberFormat(".", "", "%")),
        (("1 234,5", "12,5"), NumberFormat(",", " ")),
        (("1,234,567", "1,234"), NumberFormat(".", ",")),
        (("1.5", "2.25"), NumberFormat(".", "")),
    ):
        found = reading(*cells)
        assert found.format == expected
        assert not found.rule
    for cells in (("Rome", "Oslo"), ("12", "15"), ("007", "012"), ("1-2", "3-4"), ("v1.2.3", "v1.2.4"), ("a1", "2")):
        assert reading(*cells) is None


def test_what_could_be_read_with_either_decimal_is_decided_and_told():
    either = reading("1,234", "2,500")
    assert either.format == NumberFormat(".", ",")
    assert "could also have a decimal comma" in either.rule
    assert reading("1,234", "2,500", decimal=",").format == NumberFormat(",", "")
    assert not reading("1,234", "2,500.5").rule
    assert decimal_evidence(["1,234", "26.09.2024", "x"]) is None
    assert decimal_evidence(["1.234", "0,234"]) == ","
    assert decimal_evidence(["1,5", "1.5"]) is None


DATES = {
    "%m/%d/%Y": ["09/26/2024", "9/6/2024"],
    "%Y/%m/%d": ["2012/01/01", "2012/12/31"],
    "%d.%m.%Y": ["26.09.2024", "1.2.2024"],
    "%d.%m.%y": ["26.09.24", "01.02.24"],
    "%d-%m-%Y": ["26-09-2024", "01-02-2024"],
    "%Y-%m-%d": ["2024-09-26", "2024-02-01"],
    "%m/%d/%Y %H:%M": ["09/26/2024 8:30", "10/01/2024 18:05"],
    "%m/%d/%Y %I:%M %p": ["09/26/2024 8:30 PM", "10/01/2024 12:05 AM"],
    "%d %b %Y": ["26 Sep 2024", "1 Oct 2024"],
    "%B %d, %Y": ["September 26, 2024", "October 1, 2024"],
    "%Y-%m-%dT%H:%M:%S.%f%z": ["2024-09-26T08:30:00.5Z", "2024-10-01T08:30:00.25+02:00"],
    "%Y-%m": ["2024-09", "2024-10"],
}


@pytest.mark.parametrize("pattern", DATES)
def test_formats_of_dates_are_found(pattern):
    cells = DATES[pattern]
    assert infer_dates(np.array(cells, dtype=object)) == [DateFormat(pattern)]
    found = reading(*cells, None)
    assert found.format == DateFormat(pattern)
    assert not found.rule
    days = found.format.values(np.array([*cells, None], dtype=object))
    expected = [datetime.datetime.strptime(cell, pattern) for cell in cells]
    expected = [one.astimezone(datetime.UTC).replace(tzinfo=None) if one.tzinfo else one for one in expected]
    day, epoch = datetime.timedelta(days=1), datetime.datetime(1970, 1, 1)
    np.testing.assert_allclose(days[:-1], [(one - epoch) / day for one in expected], rtol=1e-15)
    assert math.isnan(days[-1])


def test_days_and_months_that_could_be_exchanged():
    assert reading("03/04/2024", "05/06/2024").format == DateFormat("%m/%d/%Y")
    assert "between slashes the month comes first" in reading("03/04/2024", "05/06/2024").rule
    assert reading("03.04.2024", "05.06.2024").format == DateFormat("%d.%m.%Y")
    assert "points or hyphens the day comes first" in reading("03.04.2024", "05.06.2024").rule
    assert reading("03/04/2024", "05/06/2024", decimal=",").format == DateFormat("%d/%m/%Y")
    columns = [as_column("a", ["03/04/2024", "05/06/2024"]), as_column("b", ["26/09/2024", "01/02/2024"])]
    found = infer_formats(columns)
    assert found["a"].format == found["b"].format == DateFormat("%d/%m/%Y")
    assert "order of another column" in found["a"].rule
    assert not found["b"].rule
    late = ["03/04/2024", "05/06/2024"] * 15_000 + ["26/09/2024"]  # a day above twelve after the sample
    assert reading(*late).format == DateFormat("%d/%m/%Y")


def test_a_given_date_format_is_taken():
    days = ["03/04/2024", "05/06/2024"]
    assert reading(*days, pattern="%d/%m/%Y").format == DateFormat("%d/%m/%Y")
    assert reading(*days, dates={"c": "%d/%m/%Y"}).format == DateFormat("%d/%m/%Y")
    numbers = infer_formats([as_column("c", [20240926, 20241001])], dates={"c": "%Y%m%d"})["c"]
    assert numbers.format.values(np.array(["19700103"], dtype=object)) == [2]
    for options, message in (
        ({"pattern": "%d.%m.%Y"}, "reads no column"),
        ({"dates": {"c": "%d.%m.%Y"}}, "'c' does not hold dates, day.month.year: it has the cell '03/04/2024'"),
        ({"pattern": "%d.%m"}, "has no year"),
        ({"pattern": "%Q %Y"}, "date_format"),
    ):
        with pytest.raises(ValueError, match=message):
            reading(*days, **options)


def test_words_among_many_numbers_count_as_missing():
    cells = [f"${i}.50" for i in range(98)] + ["unknown", "call us"]
    with pytest.warns(ReadingWarning, match="2 cells count as missing, such as 'unknown'"):
        preprocessor = gf.TablePreprocessor().fit({"price": cells, "x": np.arange(100)})
    assert preprocessor.get_feature_names_out().tolist() == ["price", "price is missing", "x"]
    assert reading(*cells[:40], *cells[-2:] * 2) is None  # too many words
    assert reading(*["$1.50", "$2.50"] * 40, "unknown") is None  # too few numbers: categories
    with pytest.warns(UnseenWarning, match="'price' in 1 of 30 rows, such as 'soon'"):
        found = preprocessor.transform({"price": ["$1,250.00"] * 29 + ["soon"], "x": np.arange(30)})
    np.testing.assert_array_equal(found[:, 0], [1250.0] * 29 + [49.0])
    np.testing.assert_array_equal(preprocessor.transform({"price": ["unknown"], "x": [1]})[:, 1], 1)  # as in the fit
    with pytest.raises(ValueError, match=r"'price' was to hold numbers with \$, but row 0 holds 'soon'"):
        preprocessor.transform({"price": ["soon"], "x": [1]})


def test_larger_numbers_than_in_the_fit_have_thousands():
    preprocessor = gf.TablePreprocessor().fit({"plain": np.arange(9.5), "money": [f"{i},50 €" for i in range(10)]})
    found = preprocessor.transform({"plain": ["1,234.5"], "money": ["1.234,50 €"]})
    np.testing.assert_array_equal(found, [[1234.5, 1234.5]])


def test_columns_named_categorical_stay_text():
    table = {"code": ["1,5", "2,5", "3,5"] * 4, "x": np.arange(12)}
    names = gf.TablePreprocessor(categorical=["code"]).fit(table).get_feature_names_out().tolist()
    assert names == ["code = 1,5", "code = 2,5", "code = 3,5", "x"]


def test_a_file_keeps_how_columns_are_read(tmp_path):
    table = {
        "sold": [f"{1 + i % 12:02}/{1 + i % 9:02}/2024" for i in range(40)],
        "price": [f"{i}.{i:03},5 €" for i in range(1, 41)],
        "y": [f"{i / 7:.2f}%" for i in range(40)],
    }
    preprocessor = gf.TablePreprocessor(date_format={"sold": "%d/%m/%Y"})
    model = gf.TableModel(gf.KernelRegressor(tune=None), preprocessor=preprocessor).fit(table, "y")
    assert model.target_reading_.format == NumberFormat(".", "", "%")
    model.save(tmp_path / "m")
    again = gf.load(tmp_path / "m")
    assert again.preprocessor_.readings_ == model.preprocessor_.readings_
    assert again.target_reading_ == model.target_reading_
    assert again.preprocessor_.date_format == {"sold": "%d/%m/%Y"}
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.evaluate(table) == model.evaluate(table)
    for wrong in ({"kind": "else"}, {"kind": "date", "pattern": 3}, {"kind": "number", "decimal": "x"}):
        with pytest.raises((ValueError, LookupError)):
            Format.from_dict(wrong)


def test_parameters_of_the_preprocessor():
    for bad, message in (({"decimal": ";"}, "decimal"), ({"date_format": "%d"}, "year"), ({"date_format": 3}, "text")):
        with pytest.raises(ValueError, match=message):
            gf.TablePreprocessor(**bad).fit({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match="date_format: there is no column 'b'"):
        gf.TablePreprocessor(date_format={"b": "%d.%m.%Y"}).fit({"a": [1.0, 2.0]})


def test_targets_must_be_readable_in_every_row():
    cells = np.array([f"{i}.5" for i in range(60)] + ["low"], dtype=object)
    assert infer_numbers(cells) is not None
    assert infer_numbers(cells, strict=True) is None


def test_blank_cells_and_words_for_missing_values(tmp_path):
    cells = ["$1.50", "-", "$2.50", " ", "n.a.", "$3.50"]
    found = reading(*cells)
    assert found.format == NumberFormat(".", "", "$")
    assert found.unreadable == 0
    preprocessor = gf.TablePreprocessor().fit({"price": cells})
    np.testing.assert_array_equal(preprocessor.transform({"price": cells})[:, 1], [0, 1, 0, 1, 1, 0])
    signs = gf.TablePreprocessor().fit({"sign": ["+", "-"] * 4})  # which are categories
    assert signs.get_feature_names_out().tolist() == ["sign = +"]
    (tmp_path / "d.csv").write_text("n,x\n1,1\n  ,2\n3,3\n")
    table = gf.tables.read_table(tmp_path / "d.csv")
    assert table["n"].to_pylist() == [1, None, 3]
