"""Many files are one source, and one table."""

import numpy as np
import pandas as pd
import pytest
import zarr

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.tables import read_table

ROWS = np.random.default_rng(0).normal(size=(60, 3))


def frame():
    return pd.DataFrame(ROWS, columns=["a", "b", "y"]).assign(
        city=["Rome", "Oslo", "Bari"] * 20, day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D")
    )


@pytest.fixture
def folder(tmp_path):
    """Three parts of the rows in a folder of each kind."""
    for ending in ("parquet", "csv", "feather"):
        (tmp_path / ending).mkdir()
        for place in range(3):
            part = frame()[20 * place : 20 * place + 20].reset_index(drop=True).drop(columns=["city", "day"])
            path = tmp_path / ending / f"part-{place}.{ending}"
            part.to_csv(path, index=False) if ending == "csv" else getattr(part, f"to_{ending}")(path)
        (tmp_path / ending / "_SUCCESS").touch()
    return tmp_path


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather"])
def test_folders_patterns_and_lists_are_one_source(folder, ending):
    paths = sorted((folder / ending).glob("part-*"))
    for given in (folder / ending, f"{folder}/{ending}/*.{ending}", paths, [str(path) for path in paths]):
        table = data.open(given, target="y", dtype=np.float64)
        assert table.X.shape == (60, 2)
        assert table.X.names == ("a", "b")
        np.testing.assert_allclose(table.X.to_array(), ROWS[:, :2], rtol=1e-12)
        np.testing.assert_allclose(table.y, ROWS[:, 2], rtol=1e-12)
        np.testing.assert_allclose(table.X.rows(15, 45), ROWS[15:45, :2], rtol=1e-12)
        np.testing.assert_allclose(table.X.take([59, 0, 21]), ROWS[[59, 0, 21], :2], rtol=1e-12)
    model = gf.KernelRegressor(tune=None, random_state=0).fit(folder / ending, target="y")
    again = gf.KernelRegressor(tune=None, random_state=0).fit(paths, target="y")
    np.testing.assert_array_equal(model.predict(folder / ending), again.predict(paths))


def test_arrays_without_names(tmp_path):
    for place in range(3):
        np.save(tmp_path / f"{place}.npy", ROWS[20 * place : 20 * place + 20])
    table = data.open(f"{tmp_path}/*.npy", target=2, dtype=np.float64)
    np.testing.assert_array_equal(table.X.to_array(), ROWS[:, :2])
    np.testing.assert_array_equal(table.y, ROWS[:, 2])


def test_bad_numbers_name_their_file(folder):
    part = frame()[["a", "b", "y"]]
    part.loc[30, "b"] = np.inf
    part.to_parquet(folder / "parquet" / "part-3.parquet")
    with pytest.raises(ValueError, match=r"part-3\.parquet: row 30, column 'b' is inf"):
        data.open(folder / "parquet", target="y").X.to_array()


def test_what_cannot_be_joined(folder, tmp_path):
    frame()[["a", "y"]].to_parquet(folder / "parquet" / "other.parquet")
    for given, kind, message in (
        (folder, ValueError, r"files of several kinds, .csv, .feather, .parquet"),
        (folder / "parquet", ValueError, "has other features than"),
        (f"{folder}/none*.csv", FileNotFoundError, "no file has such a name"),
        ("s3://bucket/trips.parquet", ValueError, "is an address"),
    ):
        with pytest.raises(kind, match=message):
            data.open(given, target="y")
    (folder / "empty").mkdir()
    swapped = folder / "csv" / "swapped.csv"
    frame()[["b", "y", "a"]].to_csv(swapped, index=False)
    assert data.open(folder / "csv", target="y").X.shape == (120, 2)  # columns in another order
    np.testing.assert_allclose(data.open(folder / "csv", target="y").X.to_array()[60:], ROWS[:, :2], rtol=1e-6)
    with pytest.raises(ValueError, match="folder without files that can be read"):
        data.open(folder / "empty")
    zarr.save(folder / "stored", ROWS)
    assert data.open(folder / "stored").X.shape == (60, 3)  # a folder that is one array


def test_many_files_are_one_table(tmp_path):
    whole = frame()
    for place in range(3):
        part = whole[20 * place : 20 * place + 20]
        part.to_csv(tmp_path / f"{place}.csv", index=False)
    for given in (tmp_path, f"{tmp_path}/?.csv", sorted(tmp_path.glob("*.csv"))):
        table = read_table(given)
        assert list(table) == list(whole)
        expected = gf.TablePreprocessor().fit_transform(whole)
        np.testing.assert_allclose(gf.TablePreprocessor().fit_transform(table), expected, rtol=1e-12)
    whole.assign(more=1).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match="do not both have 'more'"):
        read_table(tmp_path)


def test_a_column_that_is_text_in_one_file(tmp_path):
    (tmp_path / "a.csv").write_text("x,z\n1,\n2,\n")
    (tmp_path / "b.csv").write_text('x,z\n"1,234",5\n7,6\n')
    table = read_table(tmp_path)
    assert table["x"].tolist() == ["1", "2", "1,234", "7"]
    np.testing.assert_array_equal(table["z"], [np.nan, np.nan, 5, 6])
