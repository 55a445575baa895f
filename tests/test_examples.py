"""Every example runs at its small size, draws something, says something, and leaves nothing else behind."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "look.py")
GALLERY = (ROOT / "docs" / "gallery.md").read_text("utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("one_thread")
def test_runs(script, tmp_path, monkeypatch, capsys):
    figures, here = tmp_path / "figures", tmp_path / "here"
    figures.mkdir()
    here.mkdir()
    monkeypatch.setenv("GYRFALCON_QUICK", "1")
    monkeypatch.setenv("GYRFALCON_FIGURES", str(figures))
    monkeypatch.syspath_prepend(script.parent)
    monkeypatch.chdir(here)
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        pyplot.close("all")  # what other tests have left open
        runpy.run_path(str(script), run_name="__main__")
        image = matplotlib.image.imread(figures / f"{script.stem}.png")
    assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 20  # colors
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{script.stem}.png"]
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_is_in_the_gallery(script):
    assert f"```{{literalinclude}} ../examples/{script.name}" in GALLERY
    assert f"](_static/gallery/{script.stem}.png)" in GALLERY
    assert (ROOT / "docs" / "_static" / "gallery" / f"{script.stem}.png").stat().st_size < 200_000
