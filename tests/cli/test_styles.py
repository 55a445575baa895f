"""The same table as people write it in different countries, programs and encodings gives the same model."""

import json

import numpy as np
import pandas as pd
import pytest


def trips(rows=400):
    """Trips with a date, a distance, a tip in percent, a city with an umlaut, and what they cost."""
    random = np.random.default_rng(0)
    day = np.datetime64("2022-01-01") + random.integers(0, 3 * 365, rows)
    distance = random.gamma(3.0, 400.0, rows).round(2)
    tip = random.uniform(0, 30, rows).round(1)
    city = random.choice(["Zürich", "Rome", "Köln"], rows)
    season = np.cos((day - np.datetime64("2022-01-01")).astype(float) / 365.25 * 2 * np.pi)
    cost = 50 + 2.5 * distance * (1 + tip / 100) + 900 * season + np.where(city == "Rome", 500, 0)
    cost = (cost + random.normal(0, 60, rows)).round(2)
    return pd.DataFrame({"day": day, "distance": distance, "tip": tip, "city": city, "cost": cost})


def plain(frame):
    return frame.assign(day=frame["day"].dt.strftime("%Y-%m-%d"))


def american(frame):
    return frame.assign(
        day=frame["day"].dt.strftime("%m/%d/%Y"),
        distance=[f"{value:,.2f}" for value in frame["distance"]],
        tip=[f"{value}%" for value in frame["tip"]],
        cost=[f"-${-value:,.2f}" if value < 0 else f"${value:,.2f}" for value in frame["cost"]],
    )


def german(frame):
    def number(value, places):
        return f"{value:,.{places}f}".replace(",", "T").replace(".", ",").replace("T", ".")

    return frame.assign(
        day=frame["day"].dt.strftime("%d.%m.%Y"),
        distance=[number(value, 2) for value in frame["distance"]],
        tip=[number(value, 1) + " %" for value in frame["tip"]],
        cost=[number(value, 2) + " €" for value in frame["cost"]],
    )


STYLES = {
    "iso": (plain, {}),
    "us": (american, {}),
    "german": (german, {"sep": ";"}),
    "german latin-1": (german, {"sep": ";", "encoding": "cp1252"}),
    "german utf-16": (german, {"sep": "\t", "encoding": "utf-16"}),
    "us compressed": (american, {"compression": "gzip"}),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, gyrfalcon):
    """What fit says of every style, by name, and where its files are."""
    folder = tmp_path_factory.mktemp("styles")
    found = {}
    for name, (written, how) in STYLES.items():
        place = folder / name.replace(" ", "_")
        place.mkdir()
        ending = ".csv.gz" if "compression" in how else ".csv"
        frame = trips()
        written(frame[:400]).to_csv(place / f"trips{ending}", index=False, **how)
        written(frame[:40]).drop(columns="cost").to_csv(place / f"new{ending}", index=False, **how)
        done = gyrfalcon(f"fit {place}/trips{ending} --target cost --json --out", place / "m.safetensors")
        assert done.code == 0, done.err
        found[name] = place, ending, done
    return found


def test_every_style_gives_the_same_score(fitted):
    scores = {name: done.result["test"]["r2"] for name, (_, _, done) in fitted.items()}
    assert scores["iso"] > 0.98
    for score in scores.values():
        assert score == pytest.approx(scores["iso"], abs=0.005)


def test_every_style_is_told(fitted):
    formats = {name: done.result["formats"] for name, (_, _, done) in fitted.items()}
    assert formats["iso"] == {}
    assert formats["us"]["day"].startswith("dates, month/day/year, such as ")
    assert formats["us"]["distance"].startswith("numbers with commas between thousands, such as ")
    assert formats["us"]["tip"].startswith("numbers with percent signs, such as ")
    assert formats["us"]["cost"].startswith("numbers with commas between thousands, $, such as $")
    assert formats["german"]["day"].startswith("dates, day.month.year, such as ")
    assert "a decimal comma, points between thousands, €, such as " in formats["german"]["cost"]
    for name, (_, _, done) in fitted.items():
        for column, how in formats[name].items():
            assert f"note: column '{column}' is read as {how}" in done.err
        assert ("is not UTF-8, and it is read as cp1252" in done.err) == (name == "german latin-1")


def test_new_tables_are_read_in_the_same_way(fitted, gyrfalcon, tmp_path):
    predicted = {}
    for name, (place, ending, _) in fitted.items():
        out = tmp_path / f"{name}.csv"
        done = gyrfalcon(f"predict {place}/m.safetensors {place}/new{ending} --out", out)
        assert done.code == 0, done.err
        predicted[name] = pd.read_csv(out)["prediction"]
    for name, values in predicted.items():
        np.testing.assert_allclose(values, predicted["iso"], rtol=1e-6, err_msg=name)
    place = fitted["us"][0]
    (tmp_path / "iso.csv").write_text((fitted["iso"][0] / "new.csv").read_text())
    done = gyrfalcon(f"predict {place}/m.safetensors {tmp_path}/iso.csv --out", tmp_path / "p.csv")
    assert done.code == 1
    assert "'day' was to hold dates, month/day/year, but row 0 holds '2" in done.err


def test_models_say_how_they_read(fitted, gyrfalcon):
    said = gyrfalcon(f"info {fitted['us'][0]}/m.safetensors --json").result
    assert said["formats"]["day"].startswith("dates, month/day/year")
    assert said["formats"]["cost"].startswith("numbers with commas")


def test_the_same_table_from_excel_and_json(fitted, gyrfalcon, tmp_path):
    pytest.importorskip("openpyxl")
    frame = trips()
    frame.to_excel(tmp_path / "trips.xlsx", index=False)
    plain(frame).to_json(tmp_path / "trips.jsonl", orient="records", lines=True)
    plain(frame).to_json(tmp_path / "trips.json", orient="records")
    expected = fitted["iso"][2].result["test"]["r2"]
    for ending in ("xlsx", "jsonl", "json"):
        done = gyrfalcon(f"fit {tmp_path}/trips.{ending} --target cost --json --out", tmp_path / "m.safetensors")
        assert done.code == 0, done.err
        assert done.result["test"]["r2"] == pytest.approx(expected, abs=1e-6)
        done = gyrfalcon(f"predict {tmp_path}/m.safetensors {tmp_path}/trips.{ending} --out", tmp_path / "p.csv")
        assert done.code == 0, done.err


def test_sheets_and_nested_objects(tmp_path):
    pytest.importorskip("openpyxl")
    from gyrfalcon.tables import ReadingWarning, read_table

    with pd.ExcelWriter(tmp_path / "two.xlsx") as book:
        pd.DataFrame({"a": [1, 2]}).to_excel(book, sheet_name="first", index=False)
        pd.DataFrame({"b": ["#N/A", 2.5]}).to_excel(book, sheet_name="second", index=False)
    with pytest.warns(ReadingWarning, match="2 sheets, and 'first' is read"):
        assert list(read_table(tmp_path / "two.xlsx")) == ["a"]
    assert read_table(tmp_path / "two.xlsx", sheet="second")["b"].tolist() == [None, 2.5]
    with pytest.raises(ValueError, match="no sheet 'third': it has first, second"):
        read_table(tmp_path / "two.xlsx", sheet="third")
    with pytest.raises(ValueError, match=r"delimiter=';' does not apply to \.xlsx files"):
        read_table(tmp_path / "two.xlsx", delimiter=";")
    rows = [{"x": 1, "at": {"lat": 1.5, "more": {"n": 2}}}, {"x": 2, "at": {"lat": 2.5, "more": {"n": 3}}}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert list(read_table(tmp_path / "d.jsonl")) == ["x", "at.lat", "at.more.n"]


def test_bytes_that_are_not_utf_8_after_the_first_lines(tmp_path):
    from gyrfalcon.tables import ReadingWarning, read_table

    lines = ["city,x", *["Rome,1"] * 20_000, "Köln,2"]
    (tmp_path / "d.csv").write_bytes("\n".join(lines).encode("cp1252"))
    with pytest.warns(ReadingWarning, match="read as cp1252"):
        assert read_table(tmp_path / "d.csv")["city"][-1].as_py() == "Köln"
    (tmp_path / "m.csv").write_bytes("name,x\nKöln,1\n".encode("mac-roman"))
    assert read_table(tmp_path / "m.csv", encoding="mac-roman")["name"][0].as_py() == "Köln"
    for encoding, message in (("none", "Python knows none called 'none'"), ("ascii", "is not ascii text")):
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "m.csv", encoding=encoding)


def test_dates_and_decimals_can_be_set(gyrfalcon, tmp_path):
    lines = ["when;n;y"] + [f"{1 + i % 9:02}/{1 + i % 12:02}/2024;1,{i:03};{i / 3:.2f}" for i in range(60)]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    told = gyrfalcon(f"fit {tmp_path}/d.csv --target y --json --out", tmp_path / "m.safetensors")
    assert "between slashes the month comes first" in told.result["formats"]["when"]
    assert "could also have a decimal comma" in told.err
    line = f"fit {tmp_path}/d.csv --target y --date-format %d/%m/%Y --decimal , --task regression --json --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["formats"]["when"].startswith("dates, day/month/year")
    by_column = line.replace("%d/%m/%Y", "when=%d/%m/%Y")
    again = gyrfalcon(by_column, tmp_path / "m.safetensors").result
    assert again["formats"] == done.result["formats"]
    for options, code in (("--date-format %d", 1), ("--decimal ;", 1), ("--date-format a=%Y --date-format %Y", 2)):
        wrong = gyrfalcon(f"fit {tmp_path}/d.csv --target y {options} --out", tmp_path / "m.safetensors")
        assert wrong.code == code
