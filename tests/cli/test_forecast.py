"""`gyrfalcon forecast` on tables with time stamps."""

import html
import re

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.cli.output import write_columns


@pytest.fixture(scope="module")
def wind(tmp_path_factory):
    """wind.csv with 40 days of hours, of which two are missing, and a column of notes."""
    rng, n = np.random.default_rng(0), 24 * 40
    deg = np.cumsum(rng.normal(size=n)) * 5 % 360
    ws = 6 + 2 * np.sin(np.arange(n) * np.pi / 12) + np.abs(rng.normal(size=n))
    kept = np.delete(np.arange(n), [300, 301])
    times = (np.datetime64("2018-01-01T00") + kept).astype("M8[m]").astype(str)
    path = tmp_path_factory.mktemp("wind") / "wind.csv"
    write_columns(path, {"t": times.tolist(), "speed": ws[kept], "deg": deg[kept], "note": ["fine"] * len(kept)})
    return path


def test_forecasts_and_reports(wind, gyrfalcon, tmp_path):
    line = f"forecast {wind} --time t --target speed --horizons 1,3,6 --memory 4,12 --centers 40 --seed 1"
    line += f" --retrain static --retrain online-10D --every 5D --report {tmp_path}/r.html --json --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    found = done.result
    assert [row["horizon"] for row in found["test"]] == [1, 3, 6]
    assert all(row["gamma"] < 0.9 for row in found["test"])
    assert set(found["retrained"]) == {"static", "online-10D"}
    assert found["chosen"]["design"] == "auto"
    assert found["forecasts"][0]["time"] == "2018-02-10T00:00:00"
    assert all(row["lower"] < row["forecast"] < row["upper"] for row in found["forecasts"])
    assert "1 gap, 2 stamps missing" in found["series"]
    model = gf.load(tmp_path / "m.safetensors")
    assert model.predict().mean[0].tolist() == [row["forecast"] for row in found["forecasts"]]
    assert "a forecaster of a series" in gyrfalcon(f"info {tmp_path}/m.safetensors").err
    page = (tmp_path / "r.html").read_text()
    assert "forecasts of speed, wind.csv" in page
    again = html.unescape(re.search("<pre>gyrfalcon (.*?)</pre>", page, re.DOTALL)[1])
    assert gyrfalcon(again, "--json").result["test"] == found["test"]


def test_a_wind_and_text(wind, gyrfalcon, tmp_path):
    line = f"forecast {wind} --time t --speed speed --direction deg --horizons 1 --memory 3 --centers 30"
    done = gyrfalcon(f"{line} --split 2018-02-01 --checkpoint", tmp_path / "kept")
    assert done.code == 0, done.err
    assert "target speed" in " ".join(done.out.split())
    assert "2018-02-01" in done.out
    assert "of persistence" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--time when --target speed", "time='when': there is no such column"),
        ("--time t --target nothing", "target='nothing': there is no such column"),
        ("--time t --target speed --horizons 1,b", "--horizons must be whole numbers with commas"),
        ("--time t --target speed --memory 3 --grid", "exclude each other"),
        ("--time t --target speed --retrain daily", "retrain must be"),
        ("--time t", "--target must name one of speed, deg, note"),
        ("--time t --target speed --memory 400", "no window of 424 stamps"),
    ],
)
def test_errors_are_one_line(wind, gyrfalcon, options, words):
    done = gyrfalcon(f"forecast {wind} {options}")
    assert done.code == 1
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1
