"""Predictions are written whole or not at all, and read back as they were."""

import numpy as np
import pytest

from gyrfalcon import data

every_kind = pytest.mark.parametrize("kind", ["npy", "parquet", "feather", "csv"])


@every_kind
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_read_back(tmp_path, kind, columns, dtype):
    X = (100 * np.random.default_rng(0).standard_normal((57, columns))).astype(dtype)
    path, names = tmp_path / f"out.{kind}", [f"y{j}" for j in range(columns)]
    assert data.write(path, names, (X[i : i + 10] for i in range(0, 57, 10))) == 57
    if kind == "npy":
        found = np.load(path)
        assert found.dtype == dtype
        assert found.ndim == min(2, columns)
        found = found.reshape(57, columns)
    else:
        source = data.open(path, dtype=np.float64).X
        assert source.names == tuple(names)
        found = source.to_array()
    np.testing.assert_array_equal(found.astype(dtype), X)


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_labels(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    chunks = [np.array(["a", "bb"]), np.array(["ccc"])]
    data.write(path, ["label"], chunks)
    with pytest.raises(ValueError, match="column 'label' holds"):
        data.open(path)
    with pytest.raises(TypeError, match="hold numbers"):
        data.write(tmp_path / "out.npy", ["label"], chunks)


@every_kind
def test_nothing_is_left_of_a_failure(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    path.write_bytes(b"before")

    def chunks():
        yield np.zeros((3, 2))
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        data.write(path, ["a", "b"], chunks())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize(
    ("name", "chunks", "error", "words"),
    [
        ("out.xls", [np.zeros((1, 2))], ValueError, "must end in one of .npy"),
        ("no/out.npy", [np.zeros((1, 2))], FileNotFoundError, "make the folder"),
        ("out.npy", [np.zeros((1, 3))], ValueError, "chunk 0 must have 2 columns"),
        ("out.npy", [np.zeros((1, 2)), np.zeros((1, 2), int)], TypeError, "chunk 1 holds int64"),
        ("out.npy", [], ValueError, "there are none"),
    ],
)
def test_misuse(tmp_path, name, chunks, error, words):
    with pytest.raises(error, match=words):
        data.write(tmp_path / name, ["a", "b"], chunks)
    assert list(tmp_path.iterdir()) == []
