"""The commands on files that are in order."""

import html
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import gyrfalcon as gf
from gyrfalcon.cli.bench import warn_if_busy
from gyrfalcon.cli.budget import estimator_for
from gyrfalcon.cli.demo import homes
from gyrfalcon.cli.options import seconds
from gyrfalcon.report.text import share
from gyrfalcon.tables.files import read_table


def test_fit_predict_evaluate_info(folder, gyrfalcon, tmp_path):
    fitted = json.loads((folder / "price.json").read_text())
    assert fitted["task"] == "regression"
    assert (fitted["train_rows"], fitted["test_rows"]) == (128, 32)
    assert fitted["test"]["r2"] > 0.8
    model, new = folder / "price.safetensors", pd.read_csv(folder / "new_homes.csv", parse_dates=["sold"])
    line = f"predict {model} {folder}/new_homes.csv --keep city --std --json --out"
    predicted = gyrfalcon(line, tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err
    assert predicted.result["rows"] == 40
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table) == ["city", "prediction", "standard_deviation"]
    assert (table["city"] == new["city"]).all()
    np.testing.assert_allclose(table["prediction"], gf.load(model).predict(new.drop(columns="price")), rtol=1e-9)
    evaluated = gyrfalcon(f"evaluate {model} {folder}/new_homes.csv --json")
    rmse = np.sqrt(np.mean((table["prediction"] - new["price"]) ** 2))
    assert evaluated.result["test"]["rmse"] == pytest.approx(rmse, rel=1e-9)
    known = gyrfalcon(f"info {model} --json").result
    assert known["columns"]["city"].startswith("category; ")
    assert known["target"] == "price"
    assert known["model"]["features"] == len(known["length_scales"])


def test_a_target_with_a_long_tail_is_transformed(gyrfalcon, tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(-1, 1, size=(800, 3)), columns=["a", "b", "c"])
    table["income"] = np.exp(np.sin(3 * table["a"]) + table["b"] + 0.4 * random.normal(size=800))
    table.to_csv(tmp_path / "incomes.csv", index=False)
    fitted = gyrfalcon(f"fit {tmp_path}/incomes.csv --target income --json --out", tmp_path / "model.safetensors")
    assert fitted.code == 0, fitted.err
    assert fitted.result["model"]["fitted_to"].startswith("arsinh((y - ")
    line = f"predict {tmp_path}/model.safetensors {tmp_path}/incomes.csv --interval 0.9 --out"
    assert gyrfalcon(line, tmp_path / "p.csv").code == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    inside = (predicted["lower"] <= table["income"]) & (table["income"] <= predicted["upper"])
    assert 0.86 < inside.mean() < 0.95
    assert (predicted["upper"] - predicted["prediction"] > predicted["prediction"] - predicted["lower"]).mean() > 0.95


def test_classification_has_probabilities(folder, gyrfalcon, tmp_path):
    fitted = json.loads((folder / "kind.json").read_text())
    assert fitted["task"] == "classification"
    assert fitted["test"]["accuracy"] > 0.8
    assert fitted["test"]["roc_auc"] > 0.8
    done = gyrfalcon(f"predict {folder}/kind.safetensors {folder}/new_homes.csv --out", tmp_path / "p.parquet")
    assert done.code == 0, done.err
    table = pd.read_parquet(tmp_path / "p.parquet")
    chances = table.filter(like="probability_")
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (table["prediction"] == chances.columns[chances.to_numpy().argmax(1)].str.removeprefix("probability_")).all()


def test_reports(folder, gyrfalcon, tmp_path):
    line = f"fit {folder}/homes.csv --target price --drop kind --report {tmp_path}/fit.html --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    line = f"evaluate {folder}/kind.safetensors {folder}/new_homes.csv --report"
    done = gyrfalcon(line, tmp_path / "evaluate.html")
    assert done.code == 0, done.err
    for name, words in (("fit", "price of homes.csv"), ("evaluate", "kind of new_homes.csv")):
        page = (tmp_path / f"{name}.html").read_text()
        assert words in page
        assert "city = Rome" in page
        assert ">price</text>" in page or name == "evaluate"  # axes say what is predicted
        assert f"gyrfalcon {'report' if name == 'evaluate' else name} " in page
    done = gyrfalcon(f"report {folder}/kind.safetensors {folder}/new_homes.csv --out", tmp_path / "report.html")
    assert done.code == 0, done.err
    assert "kind of new_homes.csv" in (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    assert sorted(os.listdir(tmp_path)) == ["evaluate.html", "fit.html", "m.safetensors"]


def test_a_report_says_how_to_make_it_again(folder, gyrfalcon, tmp_path):
    (tmp_path / "my homes.csv").write_text((folder / "homes.csv").read_text().replace(",", ";"))
    line = f"fit '{tmp_path}/my homes.csv' --target price --drop kind --drop sold --categorical rooms --delimiter ';'"
    line += f" --seed 3 --test-fraction 0.3 --time-budget 1m --report {tmp_path}/r.html --json --out"
    first = gyrfalcon(line, tmp_path / "m.safetensors").result
    command = re.search("<pre>gyrfalcon (.*?)</pre>", (tmp_path / "r.html").read_text(), re.DOTALL)[1]
    for path in (tmp_path / "r.html", tmp_path / "m.safetensors"):
        path.unlink()
    again = gyrfalcon(html.unescape(command), "--json").result
    assert sorted(os.listdir(tmp_path)) == ["m.safetensors", "my homes.csv", "r.html"]
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


def test_words_are_for_people(folder, gyrfalcon):
    model = folder / "kind.safetensors"
    for line in (f"info {model}", f"evaluate {model} {folder}/new_homes.csv", "doctor"):
        done = gyrfalcon(line)
        assert done.code == 0, done.err
        assert done.result is None
        assert len(done.out.splitlines()) > 3


def test_the_same_seed_gives_the_same_model(folder, gyrfalcon, tmp_path):
    gyrfalcon(f"fit {folder}/homes.csv --target price --drop kind --out", tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes()
    new = pd.read_csv(folder / "new_homes.csv", parse_dates=["sold"])
    first, second = gf.load(folder / "price.safetensors"), gf.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(first.predict(new), second.predict(new))


def test_tune_shows_what_it_chose(folder, gyrfalcon, tmp_path):
    line = f"tune {folder}/homes.csv --target price --objective gcv --drop sold --json --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    values = [step["value"] for step in done.result["trace"]]
    assert done.result["objective"].lower() == "gcv"
    assert min(values) < values[0]
    assert next(iter(done.result["relevance"].values())) == 1
    assert not any(name.startswith("sold") for name in done.result["length_scales"])
    assert gf.load(tmp_path / "m.safetensors").target_ == "price"
    assert "relevance of the features" in gyrfalcon(f"tune {folder}/homes.csv --target price --test-fraction 0").out


@pytest.mark.parametrize("ending", ["parquet", "feather", "npz", "arff", "libsvm", "tsv", "csv.gz"])
def test_formats(ending, gyrfalcon, tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3)).round(3)
    y = (X[:, 0] + X[:, 1] ** 2).round(3)
    path, frame = tmp_path / f"d.{ending}", pd.DataFrame(X, columns=["a", "b", "c"]).assign(target=y)
    match ending:
        case "parquet" | "feather":
            getattr(frame, f"to_{ending}")(path)
        case "npz":
            np.savez(path, X=X, target=y)
        case "arff":
            lines = ["@relation r", *(f"@attribute {name} numeric" for name in frame), "@data"]
            path.write_text("\n".join([*lines, *(",".join(map(str, row)) for row in frame.to_numpy())]) + "\n")
        case "libsvm":
            rows = (f"{t} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for x, t in zip(X, y, strict=True))
            path.write_text("\n".join(rows) + "\n")
        case _:
            frame.to_csv(path, sep="\t" if ending == "tsv" else ";", index=False)
    done = gyrfalcon(f"fit {path} --target target --time-budget 5s --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["model"]["features"] == 3
    assert done.result["test"]["r2"] > 0.8


def test_empty_lines_before_the_names(gyrfalcon, tmp_path):
    (tmp_path / "d.csv").write_text("\r\n\nx,y\n" + "".join(f"{i}.5,{i}\n" for i in range(20)))
    done = gyrfalcon(f"fit {tmp_path}/d.csv --target y --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err


def test_decimal_commas_and_quoted_lines(gyrfalcon, tmp_path):
    cells = [f'"a\nb";{i},5;{i}.'.removesuffix(".") for i in range(20)]
    (tmp_path / "d.csv").write_text("text;x;y\n" + "\n".join(cells) + "\n")
    done = gyrfalcon(f"fit {tmp_path}/d.csv --target y --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["dropped"] == {"text": "every row holds the same"}
    assert gyrfalcon(f"info {tmp_path}/m.safetensors --json").result["columns"]["x"].startswith("number")


def test_a_stream_is_fitted_predicted_and_evaluated(gyrfalcon, tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.sin(X[:, 0]) + X[:, 1])
    frame.to_parquet(tmp_path / "d.parquet")
    done = gyrfalcon(f"fit {tmp_path}/d.parquet --target y --stream --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["streamed"]
    assert done.result["test"]["r2"] > 0.9
    whole = gyrfalcon(f"evaluate {tmp_path}/m.safetensors {tmp_path}/d.parquet --json").result["test"]
    gyrfalcon(f"predict {tmp_path}/m.safetensors {tmp_path}/d.parquet --out", tmp_path / "whole.parquet")
    monkeypatch.setattr("gyrfalcon.cli.training.is_large", lambda path: True)
    passes = gyrfalcon(f"evaluate {tmp_path}/m.safetensors {tmp_path}/d.parquet --json").result["test"]
    assert passes == pytest.approx(whole, rel=1e-3)  # there, targets are float32
    gyrfalcon(f"predict {tmp_path}/m.safetensors {tmp_path}/d.parquet --out", tmp_path / "passes.parquet")
    first, second = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("whole", "passes"))
    np.testing.assert_array_equal(first.to_numpy(), second.to_numpy())
    frame.assign(b="text").to_parquet(tmp_path / "t.parquet")
    refused = gyrfalcon(f"fit {tmp_path}/t.parquet --target y --stream --out", tmp_path / "n.safetensors")
    assert refused.code == 1
    assert "only numbers can be features" in refused.err


def test_a_stream_without_its_texts(gyrfalcon, tmp_path):
    lines = "".join(f"{i / 9:.3f},{'ab'[i % 2]},{i * i}.5\n" for i in range(60))
    (tmp_path / "d.csv").write_text(f"x,c,y\n{lines}")
    done = gyrfalcon(f"fit {tmp_path}/d.csv --target y --stream --drop c --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["model"]["features"] == 1


def test_a_class_of_one_row_is_learned(gyrfalcon, tmp_path):
    lines = "".join(f"{i / 9:.3f},{'ab'[i == 7]}\n" for i in range(40))
    (tmp_path / "d.csv").write_text(f"x,y\n{lines}")
    for seed in range(3):
        line = f"fit {tmp_path}/d.csv --target y --seed {seed} --time-budget 5s --json --out"
        done = gyrfalcon(line, tmp_path / "m.safetensors")
        assert done.code == 0, done.err
        assert done.result["model"]["classes"] == ["a", "b"]
        assert (done.result["train_rows"], done.result["test_rows"]) == (32, 8)


def test_error_bars_do_not_depend_on_the_solver(gyrfalcon, tmp_path, monkeypatch):
    assert estimator_for("regression", 10**6, 5, 1, seconds=None, given={}).uncertainty is True
    X = np.random.default_rng(0).normal(size=(80, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0])
    frame.to_csv(tmp_path / "d.csv", index=False)
    gf.TableModel(gf.KernelRegressor(solver="falkon", tune=None)).fit(frame, "y").save(tmp_path / "m.safetensors")
    done = gyrfalcon(f"predict {tmp_path}/m.safetensors {tmp_path}/d.csv --std --out", tmp_path / "p.csv")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "return_std needs a squared loss and uncertainty=True" in done.err


def test_time_budget_takes_fewer_centers(gyrfalcon, monkeypatch):
    asked = []

    def plan(n, d, m, t, **given):
        asked.append((m, given["iterations"]))
        return type("Planned", (), {"interval": (0.0, given["iterations"] * m / 1000)})

    monkeypatch.setattr(gf, "plan", plan)
    regressor = estimator_for("regression", 100_000, 5, 1, seconds=20, given={})
    assert 20 * regressor.n_centers / 1000 <= 10 < 20 * 2 * regressor.n_centers / 1000
    assert estimator_for("classification", 100_000, 5, 2, seconds=2000, given={}).loss == "logistic"
    classifier = estimator_for("classification", 100_000, 5, 9, seconds=100, given={})
    assert classifier.loss == "squared"
    assert classifier.tune.seconds == 40
    few = len(asked)
    assert estimator_for("regression", 300, 5, 1, seconds=20, given={}).n_centers == "auto"
    assert len(asked) == few  # small data are fitted at once


def test_a_plan_says_that_it_counts_the_target(gyrfalcon, tmp_path):
    pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40) % 7, "y": np.arange(40.0)}).to_csv(
        tmp_path / "d.csv", index=False
    )
    for target, features, told in (("", 3, True), ("--target y", 2, False)):
        done = gyrfalcon(f"plan {tmp_path}/d.csv {target} --json")
        assert done.code == 0, done.err
        assert done.result["features"] == features
        words = " ".join(done.result["assumed"])
        assert ("every column of" in words and "--target" in words) is told


def test_without_a_budget_nothing_depends_on_the_machine(monkeypatch):
    def plan(*_, **__):
        raise AssertionError("a fit without a budget is not timed")

    monkeypatch.setattr(gf, "plan", plan)
    for task, classes in (("regression", 1), ("classification", 9)):
        estimator = estimator_for(task, 10**6, 5, classes, seconds=None, given={"random_state": 3})
        assert estimator.n_centers == "auto"
        assert estimator.tune == "auto"  # which has no limit of seconds
        assert estimator.random_state == 3


def test_a_budget_says_what_it_cut(monkeypatch, capsys):
    takes = type("Planned", (), {})

    def plan(n, d, m, t, **given):
        takes.interval = (0.0, given["iterations"] * m / 1000)
        return takes

    monkeypatch.setattr(gf, "plan", plan)
    cut = estimator_for("regression", 100_000, 5, 1, seconds=40, given={})
    assert f"note: time budget: 3,162 → {cut.n_centers:,} centers" in capsys.readouterr().err
    kept = estimator_for("regression", 100_000, 5, 1, seconds=40, given={"n_centers": 3000})
    assert kept.n_centers == 3000
    assert "centers may take 60 s, longer than the time budget" in capsys.readouterr().err


def rare(folder, n=1500):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 2)).round(3)
    fraud = random.random(n) < 0.01 + 0.35 * (X[:, 0] > 1.5)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(fraud=np.where(fraud, "yes", "no"))
    frame.to_csv(folder / "rare.csv", index=False)
    return folder / "rare.csv"


def test_rare_classes(gyrfalcon, tmp_path):
    data, model = rare(tmp_path), tmp_path / "m.safetensors"
    plain = gyrfalcon(f"fit {data} --target fraud --json --out", model).result
    weighted = gyrfalcon(f"fit {data} --target fraud --class-weight balanced --json --out", model).result
    assert weighted["test"]["balanced_accuracy"] > plain["test"]["balanced_accuracy"] + 0.1
    named = gyrfalcon(f"fit {data} --target fraud --class-weight yes=15,no=1 --json --out", model).result
    assert named["test"]["log_loss"] != plain["test"]["log_loss"]
    line = f"fit {data} --target fraud --threshold 0.15 --report {tmp_path}/r.html --json --out"
    done = gyrfalcon(line, model)
    assert done.code == 0, done.err
    assert done.result["test"]["roc_auc"] == plain["test"]["roc_auc"]
    assert done.result["test"]["balanced_accuracy"] > plain["test"]["balanced_accuracy"] + 0.1
    gyrfalcon(f"predict {model} {data} --out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert ((table["prediction"] == "yes") == (table["probability_yes"] >= 0.15)).all()
    gyrfalcon(f"predict {model} {data} --threshold 0.9 --positive no --no-proba --out", tmp_path / "p.csv")
    strict = pd.read_csv(tmp_path / "p.csv")
    assert list(strict) == ["prediction"]
    assert ((strict["prediction"] == "no") == (table["probability_no"] >= 0.9)).all()
    page = (tmp_path / "r.html").read_text()
    assert f"{share(done.result['test']['balanced_accuracy'])}</b>" in page
    for options, says in (
        ("--class-weight yes=much", "--class-weight must be balanced"),
        ("--threshold 2", "threshold must lie between 0 and 1"),
        ("--threshold 0.3 --positive maybe", "none of the classes"),
    ):
        assert says in gyrfalcon(f"fit {data} --target fraud {options} --out", model).err
    for options in ("--class-weight balanced", "--threshold 0.5"):
        assert "for classifications" in gyrfalcon(f"fit {data} --target a {options} --out", model).err


def test_a_model_that_learned_nothing_says_so(gyrfalcon, tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=300), "y": random.normal(size=300), "note": "text "})
    frame["note"] += frame.index.astype(str) + "!"
    frame.to_csv(tmp_path / "d.csv", index=False)
    model = tmp_path / "m.safetensors"
    done = gyrfalcon(f"fit {tmp_path}/d.csv --target y --report {tmp_path}/r.html --out", model)
    assert done.code == 0
    assert "warning: The model has learned nothing: on the test rows its R² is -" in done.err
    assert "Likely cause: columns are not used, 'note'" in done.err
    assert '<p class="warning" role="alert">The model has learned nothing' in (tmp_path / "r.html").read_text()
    done = gyrfalcon(f"evaluate {model} {tmp_path}/d.csv --json")
    assert done.code == 0


def test_cross_validation_and_metrics(folder, gyrfalcon, tmp_path):
    line = f"fit {folder}/homes.csv --target price --drop kind --cv 3 --metric mae --metric r2 --json --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert list(done.result["folds"]) == ["mae", "r2"]
    assert done.result["folds"]["r2"]["mean"] > 0.8
    assert (done.result["train_rows"], done.result["test_rows"], done.result["test"]) == (160, 0, None)
    shown = gyrfalcon(line.replace("--json ", ""), tmp_path / "m.safetensors")
    assert "by cross-validation" in shown.out
    assert list(
        gyrfalcon(f"evaluate {tmp_path}/m.safetensors {folder}/new_homes.csv --metric mae --json").result["test"]
    ) == ["rows", "mae"]
    for options, code, says in (
        ("--metric none", 2, "--metric must be one of"),
        ("--metric accuracy", 1, "--metric accuracy is not known of this model: it has rmse, mae, r2"),
        ("--cv 200", 1, "needs at least 400 rows"),
        (f"--cv 3 --report {tmp_path}/r.html", 2, "needs test rows"),
        (f"--cv 3 --checkpoint {tmp_path}/c", 2, "keeps one fit"),
    ):
        done = gyrfalcon(f"fit {folder}/homes.csv --target price {options} --out", tmp_path / "m.safetensors")
        assert done.code == code
        assert says in " ".join(done.err.replace("│", " ").split())


def test_predictions_with_everything(folder, gyrfalcon, tmp_path):
    model, new = folder / "price.safetensors", folder / "new_homes.csv"
    done = gyrfalcon(f"predict {model} {new} --keep-all --std --interval 0.9 --out", tmp_path / "p.csv")
    assert done.code == 0, done.err
    table, given = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(new)
    assert list(table) == [*given, "prediction", "standard_deviation", "lower", "upper"]
    pd.testing.assert_frame_equal(table[list(given)], given)
    half = 1.6448536269514722 * table["standard_deviation"]
    np.testing.assert_allclose(table["upper"] - table["prediction"], half, rtol=1e-9)
    np.testing.assert_allclose(table["prediction"] - table["lower"], half, rtol=1e-9)
    for options, says in (
        ("--interval 2", "--interval must lie between 0 and 1"),
        ("--threshold 0.5", "--threshold and --positive are for classifications"),
    ):
        assert says in " ".join(gyrfalcon(f"predict {model} {new} {options} --out", tmp_path / "q.csv").err.split())
    classes = folder / "kind.safetensors"
    assert "--std and --interval are for" in gyrfalcon(f"predict {classes} {new} --std --out", tmp_path / "q.csv").err
    assert "give that too" in gyrfalcon(f"predict {classes} {new} --positive dear --out", tmp_path / "q.csv").err


def test_checkpoints(folder, gyrfalcon, tmp_path):
    line = f"fit {folder}/homes.csv --target kind --drop price --checkpoint {tmp_path}/kept --json --out"
    done = gyrfalcon(line, tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["test"] == json.loads((folder / "kind.json").read_text())["test"]


def test_durations():
    assert [seconds(text) for text in ("90", "60s", "5m", "1.5h", 60.0)] == [90, 60, 300, 5400, 60]


def test_plan_and_bench(gyrfalcon, tmp_path, monkeypatch):
    monkeypatch.setattr("gyrfalcon.cli.bench.CENTERS", 100)
    planned = gyrfalcon("plan 1e5 3 200 --iterations 5 --table --json")
    assert planned.code == 0
    assert {one["workers"] for one in planned.result["table"]} > {1, 2}
    assert "2 machines" in gyrfalcon("plan 1e5 3 200 --iterations 5 --table").out
    assert planned.result["seconds"]["low"] <= planned.result["seconds"]["point"] <= planned.result["seconds"]["high"]
    done = gyrfalcon("bench --rows 1000 --json --out", tmp_path / "b.json")
    written = json.loads((tmp_path / "b.json").read_text())
    assert done.result["rows"] == written["rows"]
    assert len({(row["dtype"], row["d"]) for row in written["rows"]}) == 6
    assert all(row["ratio_torch"] > 0 for row in written["rows"])
    assert written["fit"]["rmse"]["gyrfalcon"] == pytest.approx(written["fit"]["rmse"]["scikit-learn"], rel=0.2)


def test_plans_of_tables(folder, gyrfalcon):
    found = gyrfalcon(f"plan {folder}/homes.csv --target price --iterations 3 --json").result
    names = gf.load(folder / "price.safetensors").preprocessor_
    assert found["rows"] == found["centers"] == 160
    kinds = len([name for name in names.sources if name != "kind"])
    assert found["features"] >= kinds
    for line, says in (
        (f"plan {folder}/homes.csv 3", "are counted"),
        ("plan 1e6", "the number of features is missing"),
        ("plan 0 3 3", "must be positive"),
        ("plan 1e6 3 --target y", "--target names a column of a table"),
    ):
        done = gyrfalcon(line)
        assert done.code == 2
        assert says in " ".join(done.err.replace("│", " ").split())
    assert "there is no column 'z'" in gyrfalcon(f"plan {folder}/homes.csv --target z").err


def test_bench_says_that_the_machine_is_busy(monkeypatch, capsys):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    warn_if_busy()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (3.7, 3.7, 3.7))
    warn_if_busy()
    assert "warning: the machine is busy, with a load of 3.7 on 2 processors" in capsys.readouterr().err


def test_the_page_of_measurements_takes_what_bench_writes(gyrfalcon, tmp_path, monkeypatch):
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "docs" / "performance.py"))
    for path in (root / "docs" / "results").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    measured = json.loads((tmp_path / "product.json").read_text())
    measured["rows"][0]["gyrfalcon_ns"] = 47.11

    def benchmark(command, **_):
        Path(command[-1]).write_text(json.dumps(measured))
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(subprocess, "run", benchmark)
    monkeypatch.chdir(root)
    code = 3
    failed = gyrfalcon("bench --full --out", tmp_path / "b.json")
    assert (failed.code, failed.err.splitlines()[-1]) == (1, "error: the benchmark ended with exit code 3")
    assert not list(tmp_path.glob("*b.json*"))
    code = 0
    assert gyrfalcon("bench --full --json --out", tmp_path / "b.json").result["rows"] == measured["rows"]
    written = script["collected"](json.loads((tmp_path / "b.json").read_text()))
    (tmp_path / "product.json").write_text(json.dumps(written))
    assert "| 47.11 |" in script["page"](tmp_path)


def test_doctor_finds_what_is_wrong(gyrfalcon, monkeypatch):
    healthy = gyrfalcon("doctor --json")
    assert healthy.code == 0
    assert healthy.result["healthy"]
    assert healthy.result["machine"]["threads"] >= 1
    monkeypatch.setattr("gyrfalcon.cli.doctor.LARGEST", {"float32": 0.0, "float64": 0.0})
    ill = gyrfalcon("doctor --json")
    assert ill.code == 1
    assert not ill.result["checks"]["products"]["passed"]
    assert ill.result["checks"]["fit"]["passed"]


def test_demo_prints_one_object(gyrfalcon, tmp_path):
    done = gyrfalcon("demo --rows 150 --no-report --json --folder", tmp_path / "new")
    assert done.code == 0, done.err
    assert done.result["evaluate"]["test"]["rows"] == 30
    files = ["homes.csv", "homes.safetensors", "new_homes.csv", "predictions.csv"]
    assert sorted(os.listdir(tmp_path / "new")) == files
    assert len(homes(30)["area"]) == 30


def test_help_has_examples(gyrfalcon):
    assert "doctor" in gyrfalcon("--help").out
    assert gyrfalcon("-V").out == gyrfalcon("--version").out == f"gyrfalcon {gf.__version__}\n"
    for name in ("fit", "predict", "evaluate", "report", "tune", "info", "plan", "bench", "doctor", "demo"):
        done = gyrfalcon(f"{name} --help")
        assert done.code == 0
        assert f"gyrfalcon {name}" in done.out


def test_as_a_process(folder):
    command = [sys.executable, "-m", "gyrfalcon", "info", str(folder / "homes.csv")]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert (failed.returncode, failed.stdout, len(failed.stderr.splitlines())) == (1, "", 1)
    assert failed.stderr.startswith("error: ")


@pytest.mark.parametrize(("target", "other"), [("price", "kind"), ("kind", "price")])
def test_update_learns_from_more_rows(folder, gyrfalcon, tmp_path, target, other):
    model = tmp_path / "m.safetensors"
    line = f"fit {folder}/homes.csv --target {target} --drop {other} --updatable --test-fraction 0 --json --out"
    assert gyrfalcon(line, model).code == 0
    expected = gf.load(model)
    done = gyrfalcon(f"update {model} {folder}/new_homes.csv --json")
    assert done.code == 0, done.err
    assert (done.result["rows"], done.result["rows_so_far"], done.result["new_classes"]) == (40, 200, [])
    more = read_table(folder / "new_homes.csv")
    evaluated = expected.evaluate(more)
    first = "rmse" if target == "price" else "accuracy"
    assert done.result["before"][first] == pytest.approx(evaluated[first])
    expected.partial_fit(more)
    found = gf.load(model)
    np.testing.assert_allclose(found.estimator_.coefficients_, expected.estimator_.coefficients_, rtol=1e-9)
    assert "written" in gyrfalcon(f"update {model} {folder}/new_homes.csv --out", tmp_path / "again.safetensors").out
    assert gf.load(model).estimator_.moments_.count == 200


def test_update_of_a_recursive_model(gyrfalcon, tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 3)), columns=list("abc"))
    frame["t"] = frame["a"] - 2 * frame["c"]
    frame[30:].to_csv(tmp_path / "more.csv", index=False)
    model = gf.online.RecursiveRegressor().fit(frame[:30][list("abc")], frame[:30]["t"])
    model.save(tmp_path / "m.safetensors")
    done = gyrfalcon(f"update {tmp_path}/m.safetensors {tmp_path}/more.csv --json")
    assert done.code == 0, done.err
    assert done.result["rows_so_far"] == 60
    model.partial_fit(frame[30:][list("abc")], frame[30:]["t"])
    np.testing.assert_allclose(gf.load(tmp_path / "m.safetensors").coefficients_, model.coefficients_, rtol=1e-9)
    labels = gf.online.RecursiveClassifier().fit(frame[:30][list("abc")].to_numpy(), np.repeat(["u", "v"], 15))
    labels.save(tmp_path / "labels.safetensors")
    assert "name it with --target" in gyrfalcon(f"update {tmp_path}/labels.safetensors {tmp_path}/more.csv").err
    frame["t"] = np.where(frame["t"] > 0, "u", "w")
    frame.to_csv(tmp_path / "more.csv", index=False)
    done = gyrfalcon(f"update {tmp_path}/labels.safetensors {tmp_path}/more.csv --target t --json")
    assert done.code == 0, done.err
    assert (done.result["new_classes"], done.result["before"]) == (["w"], None)


def test_update_refuses_models_that_keep_nothing(folder, gyrfalcon):
    before = (folder / "price.safetensors").read_bytes()
    done = gyrfalcon(f"update {folder}/price.safetensors {folder}/new_homes.csv")
    assert done.code == 1
    assert "fit it again with --updatable" in done.err
    done = gyrfalcon(f"update {folder}/price.safetensors {folder}/new_homes.csv --target kind")
    assert "is another column than 'price'" in done.err
    assert (folder / "price.safetensors").read_bytes() == before


def test_info_lists_no_length_scales_of_mapped_points(gyrfalcon, tmp_path):
    matrix = [[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 3.0, 0.0]]
    kernel = gf.kernels.Mapped(gf.kernels.Gaussian([1.0, 2.0]), matrix)
    X = np.random.default_rng(0).normal(size=(40, 4))
    gf.KernelRegressor(kernel=kernel, penalty=1e-3, tune=None).fit(X, X[:, 0]).save(tmp_path / "mapped.safetensors")
    assert gyrfalcon(f"info {tmp_path / 'mapped.safetensors'} --json").result["length_scales"] == {}
