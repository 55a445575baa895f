"""The examples of the pages about reports and data sets run."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["report", "datasets"])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 2
    for block in blocks:
        exec(compile(block, f"{name}.md", "exec"), names)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == ({"diabetes.html", "pipeline.html"} if name == "report" else {"trips.parquet"})
