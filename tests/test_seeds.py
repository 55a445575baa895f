"""The published numbers: verdicts, a run without any data, and the page, which says what docs/results says."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.seeds_row import Row

ROOT = Path(__file__).parents[1]
REMEDY = "run `python docs/seeds.py`, with --collect after `python -m benchmarks seeds`"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "docs" / "seeds.py"))


def row(published, ours, **options):
    return Row("a seed", "error", "%", published, ours, 0.5, False, "data", **options)


@pytest.mark.parametrize(
    ("published", "ours", "options", "verdict"),
    [
        (10.0, 10.5, {}, "as published"),
        (10.0, 10.6, {}, "worse"),
        (10.0, 9.4, {}, "better"),
        (10.0, None, {}, "not comparable"),
        (None, 10.0, {}, "not comparable"),
        (10.0, 10.0, {"comparable": False}, "not comparable"),
        (10.0, 0.1, {"neutral": 0.0}, "same shape"),
        (10.0, -0.1, {"neutral": 0.0}, "other shape"),
        (0.8, 1.1, {"neutral": 1.0}, "other shape"),
    ],
)
def test_verdicts(published, ours, options, verdict):
    assert row(published, ours, **options).verdict == verdict


def test_without_data_the_published_numbers_stand_alone(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "GYRFALCON_DATA"}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks", "seeds", "--quick", "--only", "absent,wind,segmentation,sgd"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for name in ("absent", "wind", "segmentation", "sgd"):
        rows = json.loads((tmp_path / "report" / "seeds" / "quick" / f"{name}.json").read_text("utf-8"))["rows"]
        assert rows
        assert all(one["published"] is not None and one["ours"] is None and one["note"] for one in rows)


def test_a_part_of_another_name_is_refused(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "seeds", "--only", "wnd"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "unknown parts wnd; there are eigenpro" in run.stderr


def test_the_page_is_that_of_the_results(script):
    assert script["page"](script["load"]()) == (ROOT / "docs" / "seeds.md").read_text("utf-8"), REMEDY


def test_the_table_of_ablations_is_that_of_the_results(script):
    text = (ROOT / "docs" / "fields.md").read_text("utf-8")
    assert script["with_ablations"](text, script["load"]()) == text, REMEDY


def test_what_is_worse_is_explained(script):
    for name, part in script["load"]().items():
        if any(one["verdict"] in ("worse", "other shape") for one in part["rows"]):
            assert name in script["WHY"], f"{name}: say in docs/seeds.py why ours is worse"
