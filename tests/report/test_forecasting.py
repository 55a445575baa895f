"""Reports on studies: they say what the study found, and stay whole where there is little to say."""

import re

import numpy as np
import pytest

from gyrfalcon.forecasting import KernelForecaster, Series, study
from gyrfalcon.report import write_forecasting_report
from reference.forecasting import START, autoregression, make

FORECASTER = KernelForecaster(n_centers=30, length_scale=1.0, decay=0.5, penalty=1e-4, random_state=0)
SECTIONS = ["accuracy", "memory", "designs", "months-and-hours", "daily-cycle", "retraining", "all-models", "reproduce"]


@pytest.fixture(scope="module")
def found():
    options = {"horizons": [1, 3], "memories": [2, 6], "every": "7D", "forecaster": FORECASTER}
    return study({"<hill>": make(1500, holes=[700])}, **options)


def cells(page, section):
    """Rows of the table of a section, as texts."""
    body = re.search(rf'<section id="{section}">(.*?)</section>', page, re.DOTALL)[1]
    rows = re.findall(r"<tr.*?>(.*?)</tr>", body, re.DOTALL)
    return [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in rows]


def test_it_says_what_the_study_found(found, tmp_path):
    path = found.report(tmp_path / "wind.html", title="Wind & more")
    page = path.read_text(encoding="utf-8")
    assert re.findall('<section id="(.*?)">', page) == SECTIONS
    assert "Wind &amp; more" in page
    assert "<hill>" not in page
    assert "<script" not in page
    head, *rows = cells(page, "accuracy")
    assert head == ["horizon", "persistence", "linear", "kernel", "γ", "chosen on the training series"]
    for h, (horizon, row) in enumerate(zip((1, 3), rows, strict=True)):
        best = found.trial("<hill>", found.chosen("<hill>", horizon))
        kernel = found.trial("<hill>", found.chosen("<hill>", horizon, model="kernel"))
        assert row[0] == str(horizon)
        assert row[1] == f"{best.nrmse[h] / best.gamma[h]:.4f}"
        assert row[3:] == [f"{kernel.nrmse[h]:.4f}", f"{best.gamma[h]:.3f}", best.configuration.words]
    grid = cells(page, "all-models")[1:]
    assert [row[1:] for row in grid] == [[f"{error:.4f}" for error in trial.nrmse] for trial in found.trials]
    retrained = {row[0]: row[1] for row in cells(page, "retraining")[1:]}
    for mode, test in found.retrained["<hill>"].items():
        months = test.by_month()
        deviation = np.std(months["nrmse"][months["horizon"] == 1])
        assert retrained[mode] == f"{test.nrmse[0]:.4f} ± {deviation:.3f}"
    assert "memories=[2, 6]" in page


@pytest.mark.parametrize("retrain", [["static"], []])
def test_little_to_say(tmp_path, retrain):
    """One horizon, memory, design and model, days instead of hours, and no retraining."""
    x = autoregression(900)
    series = Series({"t": START.astype("M8[D]") + np.arange(900), "x": x}, time="t")
    one = study(series, horizons=[1], memories=[2], models=["linear"], retrain=retrain)
    page = write_forecasting_report(tmp_path / "x.html", one, reproduce="gyrfalcon forecast").read_text("utf-8")
    assert re.findall('<section id="(.*?)">', page) == [
        "accuracy",
        "months-and-hours",
        *(["retraining"] * len(retrain)),
        "all-models",
        "reproduce",
    ]
    assert "by hour" not in page
    assert "gyrfalcon forecast" in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_stations_have_a_section(tmp_path):
    stations = {f"station {seed}": make(1100, seed=seed) for seed in range(3)}
    several = study(stations, horizons=[1, 3], memories=[2], models=["linear"], retrain=[])
    page = several.report(tmp_path / "x.html").read_text(encoding="utf-8")
    rows = cells(page, "stations")[1:]
    assert [row[0] for row in rows] == list(stations)
    strengths = [float(row[2].replace("−", "-")) for row in rows]
    assert strengths == pytest.approx([several.diurnal[name].mean for name in stations], abs=1e-3)
    assert "chosen at most stations" in page
    assert "γ against the strength of the daily cycle" in page
    assert "3 stations" in page


def test_stations_with_a_wind_and_without(tmp_path):
    """What was tried at some stations only is compared there."""
    wind = make(1100)
    plain = Series({"t": wind.times, "x": wind.channel("speed")}, time="t")
    options = {"horizons": [1], "memories": [2], "models": ["linear"], "retrain": []}
    both = study({"a": wind, "b": plain, "c": plain}, **options)
    assert both.common(1).design == "s->s"
    page = both.report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "zm→s less s→s" in page
