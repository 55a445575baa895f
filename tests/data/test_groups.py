"""Groups of arrays in Zarr and HDF5 files, and in mappings, as one table with names."""

import subprocess
import sys

import numpy as np
import pytest
import zarr

import gyrfalcon as gf
from gyrfalcon import data

RNG = np.random.default_rng(0)
X, AGE, Y = RNG.normal(size=(60, 2)), RNG.normal(size=60), RNG.integers(3, size=60)


def _zarr(folder):
    group = zarr.open_group(folder / "g.zarr", mode="w")
    for name, values in (("x", X), ("age", AGE), ("y", Y)):
        group.create_array(name, data=values)
    return folder / "g.zarr"


def _hdf5(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "g.h5", "w") as file:
        file["x"], file["age"], file["y"] = X, AGE, Y
    return folder / "g.h5"


def _hdf5_object(folder):
    h5py = pytest.importorskip("h5py")
    return h5py.File(_hdf5(folder), "r")


def _mapping(folder):
    return {"x": X, "age": AGE, "y": Y}


every_kind = pytest.mark.parametrize("make", [_zarr, _hdf5, _hdf5_object, _mapping])


@every_kind
def test_arrays_are_columns_by_name(tmp_path, make):
    given = make(tmp_path)
    table = data.open(given, target="y", dtype=np.float64)
    assert table.X.names == ("age", "x[0]", "x[1]")
    np.testing.assert_array_equal(table.X.to_array(), np.column_stack([AGE, X]))
    np.testing.assert_array_equal(table.y, Y)
    chosen = data.open(given, target=["x[1]", "y"], features=["x[0]", "age"], weight="y", dtype=np.float64)
    np.testing.assert_array_equal(chosen.X.to_array(), np.column_stack([X[:, 0], AGE]))
    np.testing.assert_array_equal(chosen.y, np.column_stack([X[:, 1], Y]))
    np.testing.assert_array_equal(chosen.weights, Y)


@every_kind
@pytest.mark.parametrize("name", ["z", "x[2]", "x[-1]", "x[", "age[0]", "x[a]"])
def test_names_that_are_not_there_are_refused(tmp_path, make, name):
    with pytest.raises(ValueError, match=r"has no column .*x \(60, 2\)"):
        data.open(make(tmp_path), target=name)


def test_groups_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(ValueError, match="different numbers of rows"):
        data.open({"x": X, "y": Y[:-1]})
    with pytest.raises(ValueError, match="no arrays"):
        data.open({"x": np.zeros((2, 2, 2))})
    with pytest.raises(ValueError, match="'x' has 2 columns: name one"):
        data.open({"x": X, "y": Y}, target="x")
    with pytest.raises(ValueError, match="'label' must hold numbers"):
        data.open({"x": X, "label": np.full(60, "a")})
    assert data.open({"x": X, "label": np.full(60, "a")}, target="label").y.tolist() == ["a"] * 60


def test_an_estimator_learns_from_an_hdf5_file(tmp_path):
    model = gf.KernelRegressor(kernel="gaussian", length_scale=1.0, penalty=1e-3, verbose=False)
    fitted = model.fit(str(_hdf5(tmp_path)), target="age")
    assert list(fitted.feature_names_in_) == ["x[0]", "x[1]", "y"]


def test_one_dataset_has_columns_with_numbers(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "one.hdf5", "w") as file:
        file["points"] = X
    for path in ("one.hdf5", "one.hdf5/points"):
        table = data.open(tmp_path / path, target=1, dtype=np.float64)
        np.testing.assert_array_equal(table.X.to_array()[:, 0], X[:, 0])
    with pytest.raises(ValueError, match="cannot be read as HDF5"):
        data.open(tmp_path / "one.hdf5" / "lines")
    (tmp_path / "bad.h5").write_bytes(b"no")
    with pytest.raises(ValueError, match="cannot be read as HDF5"):
        data.open(tmp_path / "bad.h5")


def test_files_of_a_folder_are_one_source(tmp_path):
    h5py = pytest.importorskip("h5py")
    for part in range(3):
        with h5py.File(tmp_path / f"{part}.h5", "w") as file:
            file["a"], file["b"] = AGE[20 * part : 20 * part + 20], Y[20 * part : 20 * part + 20]
    for given in (tmp_path, f"{tmp_path}/*.h5"):
        table = data.open(given, target="b", dtype=np.float64)
        np.testing.assert_array_equal(table.X.to_array()[:, 0], AGE)
        np.testing.assert_array_equal(table.y, Y)


@pytest.mark.parametrize(("package", "extra"), [("h5py", "hdf5"), ("fsspec", "remote")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, package, extra):
    (tmp_path / "x.h5").touch()
    call = "data.open('x.h5')" if package == "h5py" else "data.remote('memory://x.npy', 'cache')"
    script = f"import sys; sys.modules[{package!r}] = None; from gyrfalcon import data; {call}"
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"gyrfalcon[{extra}]" in run.stderr
