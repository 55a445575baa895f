"""Numbers in words come from measurements: the page and README say what docs/results says."""

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REMEDY = "run `python docs/performance.py`, with --collect after new benchmarks, and correct README"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "docs" / "performance.py"))


@pytest.fixture(scope="module")
def regressor():
    return json.loads((ROOT / "docs" / "results" / "regressor.json").read_text("utf-8"))


def test_the_page_is_that_of_the_measurements(script):
    assert script["page"]() == (ROOT / "docs" / "performance.md").read_text("utf-8"), REMEDY


def test_another_measurement_makes_another_page(script, tmp_path):
    for path in (ROOT / "docs" / "results").glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    assert script["page"](tmp_path) == script["page"]()
    changed = json.loads((tmp_path / "stream.json").read_text("utf-8"))
    changed["in_memory"] |= {"seconds": 4711.0, "disturbed": True}
    (tmp_path / "stream.json").write_text(json.dumps(changed), "utf-8")
    found = script["page"](tmp_path)
    assert "4711.0 s" in found
    assert found.count("others used the machine meanwhile") == script["page"]().count("others used") + 1


def test_the_table_of_readme(script, regressor):
    text = (ROOT / "README.md").read_text("utf-8")
    assert [row for row in script["regressor_rows"](regressor) if row not in text] == [], REMEDY


def test_the_claim_of_readme(regressor):
    """Rounded to whole numbers: the speed as it is rounded, the memory so that no less is saved."""
    text = (ROOT / "README.md").read_text("utf-8")
    speed, memory = re.search(r"\*\*(\w+) times faster [^*]* in 1/(\d+) of the memory", text).groups()
    fits = regressor["fit"].values()
    assert speed.lower() == WORDS[round(min(fit["speed"] for fit in fits))], REMEDY
    assert int(memory) == int(1 / max(fit["memory"] for fit in fits)), REMEDY


def test_the_tables_of_readme():
    rows = json.loads((ROOT / "docs" / "results" / "tabular.json").read_text("utf-8"))["rows"]
    better = sum(row["better"] for row in rows)
    assert f"on {better} of {len(rows)} tables" in (ROOT / "README.md").read_text("utf-8"), REMEDY


def test_collecting_keeps_what_is_shown(script):
    measured = {"machine": {"cpu": "a", "versions": {}}, "rows": [{"seconds": 1.23456789012345, "message": "done"}]}
    assert script["collected"](measured) == {"machine": {"cpu": "a"}, "rows": [{"seconds": 1.23456789}]}
