"""Opening files: columns, targets, weights, and one clear error for everything that can be wrong."""

import datetime
import decimal
import os
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
import zarr
from pyarrow import parquet
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import data

N = 40
random = np.random.default_rng(0)
COLUMNS = {
    "a": random.standard_normal(N),
    "b": random.integers(-9, 9, N),
    "label": np.array(["red", "green", "blue", "green"] * 10),
    "y": random.standard_normal(N),
    "w": random.random(N),
    "flag": random.random(N) < 0.5,
}
NUMBERS = ["a", "b", "flag"]


def _write(folder, kind, columns=None, name="t"):
    table = pa.table(COLUMNS if columns is None else columns)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=11)
    elif kind == "feather":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, 11)
    else:
        from pyarrow import csv

        csv.write_csv(table, path)
    return path


every_kind = pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])


@every_kind
def test_features_targets_and_weights(tmp_path, kind):
    path = _write(tmp_path, kind)
    table = data.open(path, target="y", weight="w", features=["flag", "a", "b"], dtype=np.float64)
    assert table.X.names == ("flag", "a", "b")
    np.testing.assert_array_equal(table.X.to_array(), np.stack([COLUMNS[c] for c in ("flag", "a", "b")], 1))
    np.testing.assert_array_equal(table.y, COLUMNS["y"])
    np.testing.assert_array_equal(table.weights, COLUMNS["w"])
    two = data.open(path, target=["y", "b"], features=["a"])
    np.testing.assert_allclose(two.y, np.stack([COLUMNS["y"], COLUMNS["b"]], 1), rtol=1e-6)
    assert two.y.dtype == np.float32
    labels = data.open(path, target="label")
    assert labels.y.tolist() == COLUMNS["label"].tolist()
    assert labels.X.names == ("a", "b", "y", "w", "flag")
    assert data.open(path, target="b", features=["a"]).y.dtype == np.int64
    nothing = data.open(path, features=["a"])
    assert (nothing.y, nothing.weights) == (None, None)


@every_kind
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "column 'label' holds .*only numbers can be features"),
        ({"features": ["a", "c"]}, "no column 'c': it has a, b, label"),
        ({"features": ["a"], "target": "z"}, "no column 'z'"),
        ({"features": ["a"], "weight": "v"}, "no column 'v'"),
        ({"features": ["a"], "weight": "label"}, "weight must hold numbers"),
        ({"features": []}, "no columns left for features"),
        ({"target": 3}, "give a name"),
        ({"features": ["a"], "dtype": np.int32}, "dtype must be"),
    ],
)
def test_wrong_columns(tmp_path, kind, options, words):
    path = _write(tmp_path, kind)
    with pytest.raises(ValueError, match=words) as raised:
        data.open(path, **options)
    assert "dtype" in options or f"t.{kind}" in str(raised.value)


@every_kind
def test_nulls_name_the_row_and_the_column(tmp_path, kind):
    holes = [float(i) if i != 23 else None for i in range(N)]
    path = _write(tmp_path, kind, {"a": COLUMNS["a"], "gap": pa.array(holes)})
    with pytest.raises(ValueError, match=rf"t.{kind}: row 23, column 'gap' holds no value"):
        data.open(path).X.to_array()
    with pytest.raises(ValueError, match=rf"t.{kind}: row 23, column 'gap' holds no value"):
        data.open(path, target="gap")


def test_missing_values_are_kept_where_they_are_asked_for(tmp_path):
    values = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, np.inf]])
    np.save(tmp_path / "points.npy", values)
    columns = {"a": pa.array([1.0, None, 4.0]), "b": pa.array([2, 3, None]), "c": pa.array([True, None, False])}
    parquet.write_table(pa.table(columns), tmp_path / "points.parquet")
    kept = data.open(tmp_path / "points.npy", missing="keep", dtype=np.float64).X
    np.testing.assert_array_equal(kept.to_array(), values)
    np.testing.assert_array_equal(kept.take([2, 1]), values[[2, 1]])
    nulls = data.open(tmp_path / "points.parquet", missing="keep", dtype=np.float64).X.to_array()
    np.testing.assert_array_equal(nulls, [[1, 2, 1], [np.nan, 3, np.nan], [4, np.nan, 0]])
    with pytest.raises(ValueError, match="row 1, column 0 is nan"):
        data.open(tmp_path / "points.npy").X.to_array()
    with pytest.raises(ValueError, match="missing must be"):
        data.open(tmp_path / "points.npy", missing="drop")


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_every_type_of_number(tmp_path, kind):
    values = np.arange(5)
    columns = {str(t): pa.array(values.astype(t)) for t in ("int8", "uint16", "int64", "float16", "float32", "float64")}
    columns["dictionary"] = pa.array(values.astype(np.float32)).dictionary_encode()
    columns["decimal"] = pa.array([decimal.Decimal(int(v)) for v in values])
    X = data.open(_write(tmp_path, kind, columns)).X.to_array()
    np.testing.assert_array_equal(X, np.tile(values[:, None], 8))


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_other_types_are_refused(tmp_path, kind):
    days = [datetime.date(2020, 1, 1 + i) for i in range(3)]
    path = _write(tmp_path, kind, {"a": [1.0, 2.0, 3.0], "day": days})
    with pytest.raises(ValueError, match="column 'day' holds date"):
        data.open(path)
    with pytest.raises(ValueError, match=r"column 'day' holds date.*numbers and text"):
        data.open(path, target="day")


@every_kind
def test_targets_that_are_not_finite(tmp_path, kind):
    path = _write(tmp_path, kind, {"a": [1.0, 2.0, 3.0], "y": [1.0, np.inf, 2.0]})
    with pytest.raises(ValueError, match="row 1, the target is inf"):
        data.open(path, target="y")


@every_kind
def test_no_rows(tmp_path, kind):
    empty = {"a": pa.array([], pa.float64())}
    with pytest.raises(ValueError, match=f"t.{kind} has no rows"):
        data.open(_write(tmp_path, kind, empty))


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.npy", "x.csv", "x.zarr"])
def test_missing_files(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=name):
        data.open(tmp_path / name)


def _damage(path, how):
    content = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(b"not what it says" * 20)


@pytest.mark.parametrize("how", ["empty", "truncated", "another format"])
@pytest.mark.parametrize("kind", ["parquet", "feather", "npy"])
def test_damaged_files(tmp_path, kind, how):
    if kind == "npy":
        path = tmp_path / "t.npy"
        np.save(path, np.zeros((100, 3)))
    else:
        path = _write(tmp_path, kind, {"a": COLUMNS["a"]})
    assert len(data.open(path).X) > 0
    _damage(path, how)
    with pytest.raises(ValueError, match=f"t.{kind} cannot be read as"):
        data.open(path)


def test_damaged_pages_are_noticed_when_read(tmp_path):
    path = tmp_path / "t.parquet"
    values = pa.table({"a": np.random.default_rng(0).standard_normal(50_000)})
    parquet.write_table(values, path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[1000:3000] = bytes(2000)
    path.write_bytes(content)
    source = data.open(path).X
    with pytest.raises(ValueError, match=r"t.parquet cannot be read as Parquet"):
        source.to_array()


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_files_that_change_between_passes(tmp_path, kind):
    path = _write(tmp_path, kind, {"a": np.arange(9.0)})
    source = data.open(path).X
    source.to_array()
    _write(tmp_path, kind, {"a": np.arange(8.0)})
    with pytest.raises(ValueError, match=f"t.{kind} has changed since it was opened"):
        list(source.chunks())


def test_columns_by_number(tmp_path):
    X = random.standard_normal((20, 4))
    np.save(tmp_path / "x.npy", X)
    zarr.save_array(tmp_path / "x.zarr", X)
    for given in (tmp_path / "x.npy", tmp_path / "x.zarr", X, zarr.open(tmp_path / "x.zarr", mode="r")):
        table = data.open(given, target=[3, 0], weight=1, dtype=np.float64)
        np.testing.assert_array_equal(table.X.to_array(), X[:, [2]])
        np.testing.assert_array_equal(table.y, X[:, [3, 0]])
        np.testing.assert_array_equal(table.weights, X[:, 1])
        assert data.open(given, features=[2, 1]).X.to_array().tolist() == X[:, [2, 1]].astype(np.float32).tolist()
        with pytest.raises(ValueError, match="no column 4: it has columns 0 to 3"):
            data.open(given, target=4)
    np.testing.assert_array_equal(data.open(torch.from_numpy(X), dtype=np.float64).X.to_array(), X)
    with pytest.raises(ValueError, match="two dimensions"):
        data.open(X[0])
    with pytest.raises(ValueError, match="be dense"):
        data.open(sparse.csr_array(X))
    with pytest.raises(ValueError, match="must hold numbers"):
        data.open(np.array([["a"]]))


def test_arrays_of_a_zarr_group_are_columns(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("inside", shape=(3, 2), dtype="float64")
    assert data.open(tmp_path / "g.zarr").X.names == ("inside[0]", "inside[1]")
    assert data.open(group).X.names == ("inside[0]", "inside[1]")
    assert data.open(tmp_path / "g.zarr" / "inside").X.shape == (3, 2)


def test_what_was_written_to_a_private_map_survives(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((400_000, 3)))
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[:] = 7.0
    assert (data.open(private).X.to_array() == 7).all()
    assert (private == 7).all()


# CSV.


def test_csv_is_converted_once(tmp_path):
    path = _write(tmp_path, "csv", {"a": np.arange(30), "b": np.arange(30) / 7})
    X = data.open(path, dtype=np.float64).X.to_array()
    np.testing.assert_allclose(X, np.stack([np.arange(30), np.arange(30) / 7], 1))
    (converted,) = tmp_path.glob("*.parquet")
    made = converted.stat().st_mtime_ns
    data.open(path)
    assert converted.stat().st_mtime_ns == made
    path.write_text("a,b\n1,2\n")
    os.utime(path, ns=(1, 1))
    assert data.open(path).X.to_array().tolist() == [[1.0, 2.0]]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([path.name, converted.name])
    converted.write_bytes(b"damaged")
    assert data.open(path).X.shape == (1, 2)


def test_csv_goes_to_the_folder_asked_for(tmp_path):
    (tmp_path / "cache").mkdir()
    path = _write(tmp_path, "csv", {"a": np.arange(3)})
    data.open(path, cache=tmp_path / "cache")
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["t.csv.gyrfalcon.parquet"]
    assert not list(tmp_path.glob("*.parquet"))


def _late(first, last):
    """More than a block of whole numbers, and something else at the end."""
    return "a,b\n" + f"{first},1\n" * 1_200_000 + f"{last},1\n"


def test_csv_types_that_change_late(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(_late(3, 2.5))
    source = data.open(path).X
    assert source.rows(1_199_999, 1_200_001).tolist() == [[3, 1], [2.5, 1]]
    path.write_text(_late(3, "oops"))
    with pytest.raises(ValueError, match=r"t.csv, column 'a' cannot be read as CSV.*oops"):
        data.open(path)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".csv", ".parquet"]  # the first one's, and no more


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.0,2.0\n3.0,4.0\n", "begins with numbers"),
        ("a,b\n1,2,3\n", "cannot be read as CSV"),
        ("", "cannot be read as CSV"),
        ("a,name\n1,x\n", "column 'name' holds string"),
        ("a,a\n1,2\n", "several columns called 'a'"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        data.open(path)


@pytest.mark.parametrize("kind", ["csv", "dask"])
def test_text_is_refused_with_all_its_columns_and_a_remedy(tmp_path, kind):
    table = {"area": np.arange(3), "city": list("aba"), "style": list("xyx")} | {f"t{i}": list("xyx") for i in range(9)}
    path = _write(tmp_path, "csv", table)
    stream = path
    if kind == "dask":
        frames = pytest.importorskip("dask.dataframe")
        stream = frames.from_pandas(pytest.importorskip("pandas").read_csv(path), npartitions=2)
    model = gf.KernelRegressor().fit(np.arange(12.0).reshape(6, 2), np.arange(6.0))
    calls = (
        lambda: gf.KernelRegressor().fit(stream, target="area"),
        lambda: model.write_predictions(stream, tmp_path / "out.csv"),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"column 'city' holds .*, column 'style' holds ") as raised:
            call()
        for words in ("6 others hold no numbers", "gyrfalcon.tables.read_table", "gyrfalcon.TableModel", "encode"):
            assert words in str(raised.value)


def test_a_bar_appears_on_a_terminal_only(tmp_path, monkeypatch):
    from gyrfalcon import progress

    shown = []
    monkeypatch.setattr(progress, "PATIENCE_TO_SHOW", 0.0)
    close = progress.Bar.close
    monkeypatch.setattr(progress.Bar, "close", lambda bar: (shown.append(bar._bar is not None), close(bar)))
    data.open(_write(tmp_path, "csv", {"a": np.arange(3)}))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    data.open(_write(tmp_path, "csv", {"a": np.arange(3)}, name="u"))
    assert shown == [False, True]


# Chunks.


def test_chunks_with_targets_and_weights():
    X, y, w = random.standard_normal((10, 2)), np.array(list("abbaabbaab")), np.arange(10)
    table = data.open([(X[i : i + 4], y[i : i + 4], w[i : i + 4]) for i in (0, 4, 8)])
    np.testing.assert_array_equal(table.X.to_array(), X.astype(np.float32))
    assert table.y.tolist() == y.tolist()
    assert (table.weights.tolist(), table.weights.dtype) == (w.tolist(), np.float32)


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        (lambda: (c for c in [np.zeros((2, 2))]), None),
        ((c for c in [np.zeros((2, 2))]), "generator can be gone through only once.*function"),
        ([], "no rows"),
        ([np.zeros(3)], "chunk 0: X must be numbers in two dimensions"),
        ([np.zeros((2, 2)), np.array([["a", "b"]])], "chunk 1: X must be numbers"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "chunk 1 has 3 features"),
        ([(np.zeros((2, 2)), np.zeros(3))], "chunk 0: y has 3 rows"),
        ([(np.zeros((2, 2)), np.zeros(2)), np.zeros((2, 2))], "chunk 1 has 1 parts"),
        ([(np.zeros((2, 2)),) * 4], "tuple of 4"),
        (3, "must be a path, an array or chunks"),
    ],
)
def test_bad_chunks(chunks, words):
    if words is None:
        assert data.open(chunks).X.shape == (2, 2)
        return
    with pytest.raises((ValueError, TypeError), match=words):
        data.open(chunks)


def test_chunks_that_end_early_the_second_time():
    passes = iter([3, 2])
    source = data.open(lambda: iter([np.zeros((1, 1))] * next(passes))).X
    with pytest.raises(ValueError, match="ended after 2 rows of 3"):
        source.to_array()


@pytest.mark.parametrize(("package", "name"), [("pyarrow", "x.parquet"), ("pyarrow", "x.csv"), ("zarr", "x.zarr")])
def test_missing_packages_are_named(tmp_path, monkeypatch, package, name):
    (tmp_path / name).write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{package}.*pip install"):
        data.open(tmp_path / name)


def test_unknown_endings(tmp_path):
    (tmp_path / "x.xls").write_text("")
    with pytest.raises(ValueError, match=r"x.xls is none of the files that can be read: .parquet"):
        data.open(tmp_path / "x.xls")
