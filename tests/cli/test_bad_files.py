"""Files that are not in order: one clear line, an exit code, and nothing written."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import gyrfalcon as gf
from gyrfalcon.cli import session
from gyrfalcon.estimators.monitor import Monitor

ROWS = [(f"{i / 7:.3f}", "ab"[i % 2], f"{i % 5 + i / 9:.3f}") for i in range(40)]
TEXT = "x,c,y\n" + "".join(",".join(row) + "\n" for row in ROWS)


def fit_fails(gyrfalcon, path, *says, line="--target y", code=1):
    """The command says all of that on one line, and leaves the folder as it was."""
    before = sorted(os.listdir(path.parent))
    done = gyrfalcon(f"fit {path} {line} --out", path.parent / "m.safetensors")
    assert done.code == code, done.err
    errors = [text for text in done.err.splitlines() if not text.startswith("note: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert len(errors[0]) < 500
    for words in says:
        assert words in errors[0]
    assert done.out == ""
    assert sorted(os.listdir(path.parent)) == before


BAD = {
    "wrong delimiter": (TEXT, "--target y --delimiter ;", "one column, 'x,c,y'"),
    "unknown delimiter": (TEXT.replace(",", "^"), "--target y", "no column 'y' to predict: the columns are x^c^y"),
    "missing target": (TEXT, "--target z", "no column 'z' to predict: the columns are x, c, y"),
    "text as a number": (
        TEXT.replace("0.000\n", "low\n", 1),
        "--target y --task regression",
        "'y' holds text such as 'low'",
    ),
    "target without values": ("x,y\n" + "1,\n2,\n" * 5, "--target y", "no value in any row"),
    "nothing but the target": ("y\n1\n2\n3\n", "--target y", "no column"),
    "no rows": ("x,y\n", "--target y", "no rows"),
    "empty": ("", "--target y", "is empty"),
    "one row": ("x,y\n1,2\n", "--target y --task regression", "one sample"),
    "one class": ("x,y\n" + "".join(f"{i},a\n" for i in range(20)), "--target y", "one class"),
    "ragged": (TEXT + "1,2\n", "--target y", "Expected 3 columns, got 2"),
    "duplicate names": (TEXT.replace("x,c,y", "x,x,y"), "--target y", "several columns called 'x'"),
    "no header": (TEXT.split("\n", 1)[1].replace("a", "1").replace("b", "2"), "--target y", "column names"),
    "infinity": (TEXT.replace("0.143", "inf"), "--target y --task regression", "is inf"),
    "only constant columns": ("x,y\n" + "".join(f"1,{i}.5\n" for i in range(30)), "--target y", "no column is left"),
    "dates as target": ("x,y\n" + "".join(f"{i},2020-01-{i:02}\n" for i in range(1, 29)), "--target y", "holds dates"),
    "one number as class": ("x,y\n" + "".join(f"{i},3\n" for i in range(20)), "--target y", "has one class only, 3:"),
    "fractions as classes": (TEXT, "--target y --task classification", "fractions such as 1.111"),
    "names with spaces": (TEXT.replace(",", ", "), "--target y", "the columns are x, ' c', ' y'"),
    "unknown drop of a stream": (TEXT, "--target y --stream --drop z", "no column 'z'"),
    "all dropped": (TEXT, "--target y --drop x --drop c", "no columns to predict from"),
    "unknown drop": (TEXT, "--target y --drop z", "--drop: there is no column 'z'"),
    "unknown categorical": (TEXT, "--target y --categorical z", "no column 'z'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text(name, gyrfalcon, tmp_path):
    text, line, says = BAD[name]
    (tmp_path / "d.csv").write_text(text)
    (tmp_path / "d.csv.gyrfalcon.parquet").touch()  # to which streams convert it
    fit_fails(gyrfalcon, tmp_path / "d.csv", says, line=line)


def test_a_hundred_thousand_columns(gyrfalcon, tmp_path):
    header = ",".join(f"c{j}" for j in range(100_000))
    (tmp_path / "d.csv").write_text("\n".join([header, *[",".join(["1"] * 100_000)] * 2]))
    fit_fails(gyrfalcon, tmp_path / "d.csv", "100,000 columns", line="--target c0")
    np.savez(tmp_path / "d.npz", X=np.zeros((3, 100_000)), y=np.arange(3))
    fit_fails(gyrfalcon, tmp_path / "d.npz", "100,000 columns")


def test_files_that_are_not_what_they_are_called(gyrfalcon, tmp_path):
    frame = pd.DataFrame({"x": np.arange(500.0), "y": np.arange(500.0)})
    for ending in ("parquet", "feather"):
        path = tmp_path / f"d.{ending}"
        getattr(frame, f"to_{ending}")(path)
        path.write_bytes(path.read_bytes()[:-200])
        fit_fails(gyrfalcon, path, "cannot be read as", "cut short")
        fit_fails(gyrfalcon, path, "cannot be read as", line="--target y --stream")
    packed = gzip.compress(TEXT.encode())
    for name, content in (
        ("d.npz", b"no zip"),
        ("d.arff", b"no arff"),
        ("d.libsvm", b"a b c"),
        ("d.csv.gz", b"no gzip"),
        ("cut.csv.gz", packed[: len(packed) // 2]),
        ("altered.csv.gz", packed[:40] + b"altered" + packed[47:]),
        ("d.jsonl", b"{no json}\n"),
        ("d.json", b"[1, 2]"),
        ("cut.json", b'[{"x": 1, "y"'),
        ("zeros.csv", b"x,y\n1,\0\n"),
    ):
        (tmp_path / name).write_bytes(content)
        fit_fails(gyrfalcon, tmp_path / name, name)
    (tmp_path / "d.xlsx").write_bytes(b"PK")
    fit_fails(gyrfalcon, tmp_path / "d.xlsx", "cannot be read as an Excel file")
    (tmp_path / "d.docx").write_bytes(b"PK")
    fit_fails(gyrfalcon, tmp_path / "d.docx", "none of the files that can be read")
    fit_fails(gyrfalcon, tmp_path / "none.csv", "does not exist")
    (tmp_path / "folder.csv").mkdir()
    fit_fails(gyrfalcon, tmp_path / "folder.csv", "is a folder without files")


def test_a_mark_and_an_empty_column_are_no_matter(gyrfalcon, tmp_path):
    lines = TEXT.splitlines()
    lines = [f"\ufeff{lines[0]},nothing", *(f"{line}," for line in lines[1:])]
    (tmp_path / "d.csv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    done = gyrfalcon(f"fit {tmp_path}/d.csv --target y --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["dropped"] == {"nothing": "no row holds a value"}
    assert "column 'nothing' is not used: no row holds a value" in done.err
    assert "x" in gyrfalcon(f"info {tmp_path}/m.safetensors --json").result["columns"]


def test_outputs_that_cannot_be_written(folder, gyrfalcon, tmp_path):
    for out, says in (
        (tmp_path / "none" / "m.safetensors", "is no folder"),
        (tmp_path, "must end in .safetensors"),
        (tmp_path / "m.txt", "must end in .safetensors"),
    ):
        done = gyrfalcon(f"fit {folder}/homes.csv --target price --out", out)
        assert (done.code, done.out) == (1, "")
        assert says in done.err
    (tmp_path / "a.safetensors").mkdir()
    assert "is a folder" in gyrfalcon(f"fit {folder}/homes.csv --target price --out", tmp_path / "a.safetensors").err
    done = gyrfalcon(
        f"fit {folder}/homes.csv --target price --report {tmp_path}/r.txt --out", tmp_path / "m.safetensors"
    )
    assert "must end in .html" in done.err
    assert os.listdir(tmp_path) == ["a.safetensors"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_read_only_folder(folder, gyrfalcon, tmp_path):
    tmp_path.chmod(0o500)
    done = gyrfalcon(f"fit {folder}/homes.csv --target price --out", tmp_path / "m.safetensors")
    assert "read-only" in done.err


def test_a_disk_that_fills_leaves_the_old_file(folder, gyrfalcon, tmp_path, monkeypatch):
    (tmp_path / "p.csv").write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left", "p.csv")))
    done = gyrfalcon(f"predict {folder}/price.safetensors {folder}/new_homes.csv --out", tmp_path / "p.csv")
    assert (done.code, done.err) == (1, "error: p.csv: No space left\n")
    assert os.listdir(tmp_path) == ["p.csv"]
    assert (tmp_path / "p.csv").read_text() == "old"
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    done = gyrfalcon(f"predict {folder}/price.safetensors {folder}/new_homes.csv --out", tmp_path / "p.csv")
    assert (done.code, done.err) == (1, "error: No space left\n")


def test_predictions_take_the_place_of_nothing(folder, gyrfalcon, tmp_path):
    new = (folder / "new_homes.csv").read_text().replace("kind", "prediction")
    (tmp_path / "new.csv").write_text(new)
    pd.read_csv(tmp_path / "new.csv").assign(several=[[1, 2]] * 40).to_parquet(tmp_path / "lists.parquet")
    done = gyrfalcon(
        f"predict {folder}/price.safetensors {tmp_path}/lists.parquet --keep several --out {tmp_path}/p.csv"
    )
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "p.csv cannot hold all of several, prediction" in done.err
    (tmp_path / "lists.parquet").unlink()
    line = f"predict {folder}/price.safetensors {tmp_path}/new.csv"
    for options, says in (
        (f"--out {tmp_path}/../{tmp_path.name}/new.csv", "is the table itself"),
        (f"--out {tmp_path}/p.csv --keep prediction", "a column of predictions is called 'prediction' too"),
    ):
        done = gyrfalcon(f"{line} {options}")
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
        assert says in done.err
    assert os.listdir(tmp_path) == ["new.csv"]
    assert (tmp_path / "new.csv").read_text() == new


def test_predicting_what_does_not_fit(folder, gyrfalcon, tmp_path):
    def predict(text, model="price.safetensors"):
        (tmp_path / "new.csv").write_text(text)
        done = gyrfalcon(f"predict {folder}/{model} {tmp_path}/new.csv --out", tmp_path / "p.csv")
        assert (tmp_path / "p.csv").exists() == (done.code == 0)
        return done

    new = (folder / "new_homes.csv").read_text()
    unseen = predict(new.replace("Genoa", "Zurich"))
    assert unseen.code == 0  # a sound answer, and a note
    count = new.count("Genoa")
    assert f"'city' in {count} of 40 rows, such as 'Zurich'" in unseen.err
    assert len(unseen.err.splitlines()) == 1
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv")["prediction"]).all()
    (tmp_path / "p.csv").unlink()
    for text, says in (
        (new.replace("area", "surface"), "no column 'area', which the fit had"),
        (new.splitlines()[0] + "\n", "no rows"),
        (new.replace('"2', '"x2').replace("2021-", "day 2021-", 1), "'sold' was to hold dates"),
    ):
        done = predict(text)
        assert done.code == 1
        assert done.err.startswith("error: ")
        assert len(done.err.splitlines()) == 1
        assert says in done.err


def test_models_that_are_none(folder, gyrfalcon, tmp_path):
    gf.TablePreprocessor().fit({"a": [1.0, 2.0]}).save(tmp_path / "rules.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((folder / "price.safetensors").read_bytes()[:-9])
    data = folder / "new_homes.csv"
    for model, says in (
        (data, "not a safetensors file"),
        (cut, "cut.safetensors"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file"),
        (tmp_path / "rules.safetensors", "TablePreprocessor, which predicts nothing"),
    ):
        for line in (f"info {model}", f"evaluate {model} {data}", f"predict {model} {data} --out {tmp_path}/p.csv"):
            done = gyrfalcon(line)
            assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
            assert done.err.startswith("error: ")
            assert says in done.err
    assert not (tmp_path / "p.csv").exists()


def test_usage_errors_have_code_two(folder, gyrfalcon):
    data = folder / "homes.csv"
    for line in (
        "fit",
        f"fit {data} --out m.safetensors",
        f"fit {data} --target price --out m.safetensors --time-budget soon",
        f"fit {data} --target price --out m.safetensors --task sorting",
        f"fit {data} --target price --out m.safetensors --test-fraction 2",
        f"fit {data} --target price --out m.safetensors --seed {2**32}",
        "plan 1e6 10 0",
        f"fit {data} --target price --out m.safetensors --report r.html --test-fraction 0",
        f"tune {data} --target price --objective none",
        "unknown",
    ):
        assert gyrfalcon(line).code == 2


def test_interrupts_and_surprises(folder, gyrfalcon, monkeypatch, tmp_path):
    def raising(error):
        def load(path):
            raise error

        return load

    line = f"info {folder}/price.safetensors"
    for error, code, says in (
        (KeyboardInterrupt(), 130, "error: interrupted, no file was left unfinished\n"),
        (MemoryError(), 1, "error: there is not enough memory"),
        (KeyError("odd"), 1, "error: unexpected KeyError: 'odd': please report it"),
    ):
        monkeypatch.setattr(gf, "load", raising(error))
        done = gyrfalcon(line)
        assert done.code == code
        assert says in done.err
        assert len(done.err.splitlines()) == 1
    monkeypatch.setenv(session.DEBUG, "1")
    with pytest.raises(KeyError):
        gyrfalcon(line)


def test_an_interrupted_fit_keeps_what_was_reached(folder, gyrfalcon, monkeypatch, tmp_path):
    draw = Monitor._draw

    def interrupted(self, step):
        if step.iteration == 3:
            raise KeyboardInterrupt
        return draw(self, step)

    monkeypatch.setattr(Monitor, "_draw", interrupted)
    out = tmp_path / "m.safetensors"
    done = gyrfalcon(f"fit {folder}/homes.csv --target kind --drop price --json --out", out)
    assert done.code == 130
    assert done.result["interrupted"]
    assert done.result["model"]["message"] == "interrupted after 3 iterations"
    assert f"warning: interrupted: {out} holds what was reached by then" in done.err
    assert gf.load(out).evaluate(pd.read_csv(folder / "new_homes.csv", parse_dates=["sold"]))["accuracy"] > 0.5


def test_an_interrupt_before_the_first_iteration_leaves_nothing(folder, gyrfalcon, monkeypatch, tmp_path):
    def fit(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(gf.KernelRegressor, "fit", fit)
    done = gyrfalcon(f"fit {folder}/homes.csv --target price --out", tmp_path / "m.safetensors")
    assert done.code == 130
    assert "error: interrupted, no file was left unfinished" in done.err
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_torch_is_imported(folder):
    """Which takes seconds: as the command, with an importer before the others that interrupts."""
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from gyrfalcon.command import main
main()
"""
    run = [sys.executable, "-c", code, "info", str(folder / "price.safetensors")]
    done = subprocess.run(run, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "error: interrupted, no file was left unfinished\n"
