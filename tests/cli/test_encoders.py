"""Files of estimators that were fitted to missing values, categories and dates themselves."""

import numpy as np
import pandas as pd
import pytest

import gyrfalcon as gf


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A table, its CSV file, and the files of a regressor and of a classifier that were fitted to it."""
    folder, rng, n = tmp_path_factory.mktemp("homes"), np.random.default_rng(0), 80
    table = pd.DataFrame({"size": rng.normal(size=n), "town": pd.Categorical(rng.choice(list("abc"), n))})
    table["sold"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    table.loc[::7, "size"] = np.nan
    price = table["size"].fillna(0) + table["town"].cat.codes
    given = {"kernel": "gaussian", "penalty": 1e-3, "verbose": False}
    gf.save(gf.KernelRegressor(**given).fit(table, price.rename("price")), folder / "price.safetensors")
    kind = pd.Series(np.where(price > 1, "dear", "cheap"), name="kind")
    gf.save(gf.KernelClassifier(**given).fit(table, kind), folder / "kind.safetensors")
    table.assign(price=price, kind=kind).to_csv(folder / "homes.csv", index=False)
    return folder, table, price


def test_predictions_are_those_of_python(homes, gyrfalcon, tmp_path):
    folder, table, _ = homes
    done = gyrfalcon(
        f"predict {folder}/price.safetensors {folder}/homes.csv --keep town --interval 0.9 --out", tmp_path / "p.csv"
    )
    assert done.code == 0, done.err
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found) == ["town", "prediction", "lower", "upper"]
    np.testing.assert_allclose(found["prediction"], gf.load(folder / "price.safetensors").predict(table), rtol=1e-9)
    done = gyrfalcon(f"predict {folder}/kind.safetensors {folder}/homes.csv --out", tmp_path / "k.csv")
    assert done.code == 0, done.err
    assert set(pd.read_csv(tmp_path / "k.csv")["prediction"]) == {"cheap", "dear"}


def test_evaluation_and_report_name_the_columns(homes, gyrfalcon, tmp_path):
    folder, table, price = homes
    done = gyrfalcon(f"evaluate {folder}/price.safetensors {folder}/homes.csv --json --report", tmp_path / "r.html")
    assert done.code == 0, done.err
    model = gf.load(folder / "price.safetensors")
    assert done.result["test"]["r2"] == pytest.approx(model.score(table, price), rel=1e-9)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("town", "sold"))
    assert gyrfalcon(f"info {folder}/price.safetensors").code == 0


def test_a_column_that_is_not_there_is_named(homes, gyrfalcon, tmp_path):
    folder, table, _ = homes
    table.drop(columns="town").to_csv(tmp_path / "less.csv", index=False)
    done = gyrfalcon(f"predict {folder}/price.safetensors {tmp_path}/less.csv --out", tmp_path / "p.csv")
    assert done.code != 0
    assert "no column 'town'" in done.err


@pytest.mark.parametrize("target", ["price", "kind"])
def test_updates_are_those_of_python(homes, gyrfalcon, tmp_path, target):
    folder, table, _ = homes
    given = {"kernel": "gaussian", "length_scale": 1.0, "penalty": 1e-3, "verbose": False, "updatable": True}
    truth = pd.read_csv(folder / "homes.csv")
    kind = gf.KernelRegressor if target == "price" else gf.KernelClassifier
    model = kind(**given).fit(table[:50], truth[target][:50])
    gf.save(model, tmp_path / "m.safetensors")
    truth[50:].to_csv(tmp_path / "more.csv", index=False)
    done = gyrfalcon(f"update {tmp_path}/m.safetensors {tmp_path}/more.csv --json")
    assert done.code == 0, done.err
    assert (done.result["rows"], done.result["rows_so_far"]) == (30, 80)
    updated = gf.load(tmp_path / "m.safetensors")
    model.partial_fit(table[50:], truth[target][50:])
    np.testing.assert_allclose(updated.coefficients_, model.coefficients_, rtol=1e-6)
    assert updated.score(table, truth[target]) == pytest.approx(model.score(table, truth[target]), rel=1e-6)
    assert updated.encoder_ is not None
