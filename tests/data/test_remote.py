"""Files at addresses, copied on request and never otherwise."""

import numpy as np
import pytest
import zarr

import gyrfalcon as gf
from gyrfalcon import data

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def _write(system, path, text):
    with system.open(path, "w") as file:
        file.write(text)


def test_a_pattern_is_one_source(memory, tmp_path):
    for part in range(3):
        _write(memory, f"/trips/{part}.csv", f"x,y\n{part},{part * part}\n")
    _write(memory, "/trips/notes.md", "nothing")
    paths = data.remote("memory://trips/*.csv", tmp_path / "cache")
    table = data.open(paths, target="y")
    assert table.X.to_array()[:, 0].tolist() == [0, 1, 2]
    assert table.y.tolist() == [0, 1, 4]


def test_a_copy_is_made_once_and_again_when_the_file_changes(memory, tmp_path, monkeypatch):
    _write(memory, "/a.csv", "x,y\n1,1\n")
    (first,) = data.remote("memory://a.csv", tmp_path)
    copied = []
    get_file = type(memory).get_file
    monkeypatch.setattr(
        type(memory), "get_file", lambda self, *args, **named: copied.append(args) or get_file(self, *args, **named)
    )
    assert data.remote("memory://a.csv", tmp_path) == [first]
    assert copied == []
    _write(memory, "/a.csv", "x,y\n1,1\n2,4\n")
    assert data.remote("memory://a.csv", tmp_path) == [first]
    assert len(copied) == 1
    assert len(data.open(first).X) == 2


def test_a_zarr_folder_stays_one(memory, tmp_path):
    local = zarr.open_group(tmp_path / "g.zarr", mode="w")
    local.create_array("x", data=np.arange(6.0))
    memory.put(str(tmp_path / "g.zarr"), "/far/g.zarr", recursive=True)
    paths = data.remote("memory://far/g.zarr", tmp_path / "cache")
    assert [path.rpartition("/")[2] for path in paths] == ["g.zarr"]
    assert data.open(paths[0]).X.to_array()[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_nothing_is_fetched_without_asking(memory, tmp_path):
    _write(memory, "/a.csv", "x,y\n1,1\n2,4\n")
    for call in (data.open, lambda url: gf.KernelRegressor().fit(url, target="y")):
        with pytest.raises(ValueError, match=r"is an address.*gyrfalcon\.data\.remote\('memory://a\.csv'"):
            call("memory://a.csv")


def test_bad_addresses_are_refused(memory, tmp_path):
    with pytest.raises(ValueError, match="url must be an address"):
        data.remote("trips.csv", tmp_path)
    with pytest.raises(ValueError, match="nonsense://x cannot be read"):
        data.remote("nonsense://x", tmp_path)
    for url in ("memory://nothing.csv", "memory://nothing/*.csv"):
        with pytest.raises(FileNotFoundError, match="no such file"):
            data.remote(url, tmp_path)


def test_names_that_lead_out_of_the_folder_are_refused(memory, tmp_path, monkeypatch):
    _write(memory, "/in/a.csv", "x\n1\n")
    monkeypatch.setattr(type(memory), "find", lambda self, path, **named: ["/in/../../evil.csv"])
    with pytest.raises(ValueError, match="would lead out"):
        data.remote("memory://in", tmp_path / "cache")
    assert not (tmp_path.parent / "evil.csv").exists()
