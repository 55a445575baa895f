"""Models of tables: fitted, saved as one file, and asked again."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy

import gyrfalcon as gf
from gyrfalcon import persistence
from gyrfalcon.encoding.columns import as_column
from gyrfalcon.persistence import ModelFileError
from gyrfalcon.tables.targets import task_of


def homes(rows=150, seed=0):
    random = np.random.default_rng(seed)
    area = random.uniform(30, 120, rows)
    city = random.choice(["Rome", "Oslo", "Genoa"], rows)
    price = area * np.where(city == "Rome", 2.0, 1.0) + random.normal(size=rows)
    table = {"area": area, "city": city.tolist(), "price": price, "dear": (price > 120).tolist()}
    table["kind"] = np.where(price > 120, "large", "small").tolist()
    table["area"][::10] = np.nan
    return table


def without(table, *names):
    return {name: column for name, column in table.items() if name not in names}


@pytest.mark.parametrize(("target", "task"), [("price", "regression"), ("dear", "classification"), ("kind", None)])
def test_one_file_predicts_from_raw_tables(target, task, tmp_path):
    table = without(homes(), *({"price", "dear", "kind"} - {target}))
    model = gf.TableModel(task=task or "auto").fit(table, target)
    model.save(tmp_path / "m")
    again = gf.load(tmp_path / "m")
    assert isinstance(again, gf.TableModel)
    new = without(homes(40, seed=1), "price", "dear", "kind")
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    test = without(homes(40, seed=1), *({"price", "dear", "kind"} - {target}))
    assert again.evaluate(test) == model.evaluate(test)
    if target == "price":
        assert model.evaluate(test)["r2"] > 0.8
        np.testing.assert_array_equal(again.predict(new, return_std=True), model.predict(new, return_std=True))
    else:
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
        assert model.evaluate(test)["accuracy"] > 0.8
        assert set(again.predict(new).tolist()) <= set(table[target])


def test_frames_in_series_out():
    table = without(homes(), "dear", "kind")
    expected = gf.TableModel().fit(table, "price").predict(table)
    for frame in (pd.DataFrame(table), pl.DataFrame(table, nan_to_null=True)):
        predicted = gf.TableModel().fit(frame, "price").predict(frame)
        assert type(predicted) is type(frame["price"])
        assert predicted.name == "price"
        np.testing.assert_allclose(predicted.to_numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, lambda table: pl.DataFrame(table).to_arrow()])
def test_rows_without_a_target_are_left_out(kind):
    table = without(homes(60), "dear", "kind")
    table["price"] = [None if row % 7 == 0 else float(price) for row, price in enumerate(table["price"])]
    model = gf.TableModel(gf.KernelRegressor(tune=None)).fit(kind(table), "price")
    assert model.skipped_ == 9
    assert len(model.estimator_.centers_) <= 51
    assert model.evaluate(kind(table))["rows"] == 51


def test_the_task_that_a_column_means():
    for cells, task in (
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([0, 1, 1], "classification"),
        ([0.0, 1.0, None], "classification"),
        ([0.5, 1.0], "regression"),
        (list(range(11)), "regression"),
    ):
        assert task_of(as_column("y", cells)) == task
    with pytest.raises(ValueError, match="'y' holds 200 different texts, such as '0a'"):
        task_of(as_column("y", [f"{i}a" for i in range(200)]))


def test_targets_that_cannot_be_predicted():
    table = {"x": np.arange(6.0), "y": ["1", "2", "a", "4", "5", "6"]}
    for target, task, message in (
        ("z", "auto", "no column 'z' to predict: the columns are x, y"),
        ("y", "regression", "'y' holds text such as 'a', and regression"),
        ("y", "else", "task must be"),
    ):
        with pytest.raises(ValueError, match=message):
            gf.TableModel(task=task).fit(table, target)
    with pytest.raises(ValueError, match="no value in any row"):
        gf.TableModel().fit(table | {"y": [None] * 6}, "y")
    with pytest.raises(ValueError, match="holds dates"):
        gf.TableModel().fit(table | {"y": np.arange(6).astype("datetime64[D]")}, "y")
    with pytest.raises(ValueError, match="does not go with KernelRegressor"):
        gf.TableModel(gf.KernelRegressor(), task="classification").fit(table, "y")


def test_damaged_descriptions_are_refused(tmp_path):
    table = without(homes(60), "dear", "kind")
    gf.TableModel(gf.KernelRegressor(tune=None)).fit(table, "price").save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    text, arrays = persistence.parse(content)

    def change(*path, value):
        description = json.loads(json.dumps(text))
        inner = description
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        return description

    rules = ("fitted", "preprocessor", "fitted", "rules")
    for description in (
        change("fitted", "task", value="classification"),
        change("fitted", "preprocessor", value=text["fitted"]["estimator"]),
        change("fitted", "estimator", value=text["fitted"]["preprocessor"]),
        change(*rules, value=[]),
        change(*rules, 0, "rule", value="os.system"),
        change(*rules, 0, "kept", value=[9]),
        change(*rules, 0, "median", value="much"),
        change(*rules, 1, "categories", value=[{}]),
        change(*rules, 1, "counts", value={"Rome": -1}),
    ):
        said = json.dumps(description)
        (tmp_path / "m").write_bytes(
            safetensors.numpy.save(arrays, {"gyrfalcon": said, "sha256": persistence._digest(said, arrays)})
        )
        with pytest.raises(ModelFileError):
            gf.load(tmp_path / "m")
