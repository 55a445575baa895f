"""`gyrfalcon dynamics` on tables of runs."""

import html
import json
import re

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.cli.output import write_columns
from gyrfalcon.dynamics.runs import Runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs.csv with ten runs of a noisy spiral, pushed by an input, and the arrays."""
    rng, table = np.random.default_rng(0), {"run": [], "x": [], "y": [], "push": []}
    for run in range(10):
        x = rng.normal(size=2)
        for _ in range(60):
            u = rng.normal()
            for name, value in zip(table, (f"r{run}", x[0], x[1], u), strict=True):
                table[name].append(value)
            x = np.array([[0.9, 0.3], [-0.3, 0.9]]) @ x + [0.0, 0.2 * u] + 0.02 * rng.normal(size=2)
    path = tmp_path_factory.mktemp("runs") / "runs.csv"
    write_columns(path, table)
    return path


def test_fits_forecasts_and_reports(runs, gyrfalcon, tmp_path):
    line = f"dynamics {runs} --trajectory run --input push --method krr --centers 50 --dt 0.1 --seed 1"
    done = gyrfalcon(f"{line} --report {tmp_path}/r.html --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    found = done.result
    assert found["variables"] == ["x", "y"]
    assert (found["runs"], found["pairs"]) == (10, 8 * 59)
    assert found["test"]["steps"] == [1, 2, 5, 10, 20]
    assert all(np.array(found["test"]["error"]) < found["test"]["persistence"])
    model = gf.load(tmp_path / "m.safetensors")
    assert model.n_inputs_ == 1
    assert abs(model.eigenvalues_[0]) == pytest.approx(found["eigenvalues"][0]["modulus"])
    page = (tmp_path / "r.html").read_text()
    assert "dynamics of runs.csv" in page
    again = html.unescape(re.search("<pre>gyrfalcon (.*?)</pre>", page, re.DOTALL)[1])
    assert gyrfalcon(again, "--json").result["test"] == found["test"]


def test_one_run_and_tuning(gyrfalcon, tmp_path):
    t = 0.1 * np.arange(300)
    write_columns(tmp_path / "run.parquet", {"a": np.cos(t), "b": np.sin(t), "note": ["x"] * 300})
    line = f"dynamics {tmp_path}/run.parquet --drop note --tune --centers 30 --lag 2 --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert "persistence" in done.out
    assert f"written: {tmp_path}/m.safetensors" in done.out
    assert gf.load(tmp_path / "m.safetensors").n_pairs_ == 238


def test_a_killed_fit_goes_on(runs, gyrfalcon, tmp_path, monkeypatch):
    """With the bits of a fit that was never killed; a folder with another fit is refused."""
    monkeypatch.setattr("gyrfalcon.checkpoints.EVERY_SECONDS", 0.0)
    monkeypatch.setattr("gyrfalcon.checkpoints.PAUSE", 0)
    monkeypatch.setattr("gyrfalcon.dynamics.runs.CHUNK_ROWS", 100)
    line = f"dynamics {runs} --trajectory run --centers 20 --json --out"
    expected = gyrfalcon(line, tmp_path / "whole.safetensors").result
    blocks, begun = Runs.blocks, []

    def dying(self, rows, first=0):
        begun.append(first)
        for place, block in enumerate(blocks(self, rows, first)):
            if first == 0 and place == 3:
                raise KeyboardInterrupt
            yield block

    kept = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(Runs, "blocks", dying)
        assert gyrfalcon(line, tmp_path / "m.safetensors", "--checkpoint", kept).code != 0
        assert any(kept.iterdir())
        assert "another" in gyrfalcon(line, tmp_path / "m.safetensors", "--lag", 2, "--checkpoint", kept).err
        done = gyrfalcon(line, tmp_path / "m.safetensors", "--checkpoint", kept)
    assert done.code == 0, done.err
    assert begun[:2] == [0, 300]
    assert not any(kept.iterdir())
    assert done.result["test"] == expected["test"]
    one, other = (gf.load(tmp_path / f"{name}.safetensors") for name in ("whole", "m"))
    np.testing.assert_array_equal(one.moments_.cross.between, other.moments_.cross.between)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--trajectory nothing", "no column 'nothing'"),
        ("--input nothing", "no column 'nothing'"),
        ("", "holds text"),
        ("--trajectory run --lag 60", "lag=60 is too large"),
        ("--trajectory run --method krr --rank 3", "does not go with"),
        ("--trajectory run --test-fraction 0 --report r.html", "needs test runs"),
    ],
)
def test_errors_are_one_line(runs, gyrfalcon, tmp_path, options, words):
    done = gyrfalcon(f"dynamics {runs} {options} --out", tmp_path / "m.safetensors")
    assert done.code == 1
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_other_commands_say_what_the_file_is(runs, gyrfalcon, tmp_path):
    done = gyrfalcon(f"dynamics {runs} --trajectory run --centers 20 --json --out", tmp_path / "m.safetensors")
    assert json.dumps(done.result)
    assert "Koopman model" in gyrfalcon(f"info {tmp_path}/m.safetensors").err
