"""Data sets by name: from scikit-learn, from a folder, from a server that is honest, and from ones that are not."""

import gc
import hashlib
import io
import sys
import tarfile
import threading
import warnings
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gyrfalcon as gf
from gyrfalcon.datasets import readers
from gyrfalcon.datasets.registry import REGISTRY


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """A folder and the address that serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()
    with warnings.catch_warnings():  # pooch leaves the connection of a failed download to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv("GYRFALCON_DATA", raising=False)


def penguins(path):
    lines = ["species,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year"]
    lines += ["Adelie,Torgersen,39.1,18.7,181,3750,male,2007", "Gentoo,Biscoe,NA,NA,NA,NA,NA,2007"]
    lines += ["Gentoo,Biscoe,46.1,13.2,211,4500,female,2007"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("palmerpenguins/data/penguins.csv", "\n".join(lines))


def serve(monkeypatch, server, **changes):
    folder, address = server
    path = folder / "penguins.whl"
    penguins(path)
    content = path.read_bytes()
    sums = {"url": f"{address}/penguins.whl", "sha256": hashlib.sha256(content).hexdigest(), "rows": 2}
    monkeypatch.setitem(REGISTRY, "penguins", replace(REGISTRY["penguins"], **(sums | changes)))


def place(monkeypatch, tmp_path, name, **arrays):
    monkeypatch.setenv("GYRFALCON_DATA", str(tmp_path))
    (tmp_path / name).mkdir()
    np.savez(tmp_path / name / "data.npz", **arrays)


def test_downloads_are_kept_and_not_repeated(monkeypatch, server, tmp_path):
    serve(monkeypatch, server)
    X, y = gf.datasets.load("penguins", cache=tmp_path / "cache")
    assert X.tolist() == [[39.1, 18.7, 181, 3750], [46.1, 13.2, 211, 4500]]
    assert y.tolist() == ["Adelie", "Gentoo"]
    (server[0] / "penguins.whl").unlink()
    assert np.array_equal(gf.datasets.load("penguins", cache=tmp_path / "cache")[0], X)


def test_files_with_another_checksum_are_refused(monkeypatch, server, tmp_path):
    serve(monkeypatch, server, sha256="0" * 64)
    with pytest.raises(gf.datasets.DatasetError, match="does not have the checksum 0000"):
        gf.datasets.load("penguins", cache=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_what_is_missing_offline_is_named(monkeypatch, server, tmp_path):
    serve(monkeypatch, server, url=server[1] + "/gone/penguins.whl")
    cache = tmp_path / "cache"
    with pytest.raises(gf.datasets.DatasetError, match="could not be downloaded") as raised:
        gf.datasets.load("penguins", cache=cache)
    for words in (f"{server[1]}/gone/penguins.whl", str(cache / "penguins.whl"), "penguins/data.npz", "GYRFALCON_DATA"):
        assert words in str(raised.value)
    (server[0] / "penguins.whl").rename(cache / "penguins.whl")  # as the message says
    assert len(gf.datasets.load("penguins", cache=cache)[0]) == 2


def test_pooch_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'gyrfalcon\[datasets\]'"):
        gf.datasets.load("penguins")
    assert gf.datasets.load("iris")[0].shape == (150, 4)


def test_data_that_have_to_be_placed_say_where(monkeypatch, tmp_path):
    with pytest.raises(gf.datasets.DatasetError, match=r"letter/data\.npz in a folder that GYRFALCON_DATA names"):
        gf.datasets.load("letter")
    monkeypatch.setenv("GYRFALCON_DATA", str(tmp_path))
    with pytest.raises(gf.datasets.DatasetError, match="20,000 × 16 in all, at") as raised:
        gf.datasets.load("letter")
    assert str(tmp_path / "letter" / "data.npz") in str(raised.value)


def test_placed_files_come_first_and_other_ones_are_told(monkeypatch, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(20_000, 16)), np.arange(20_000) % 26
    place(monkeypatch, tmp_path, "letter", X=X, y=y)
    with pytest.warns(UserWarning, match="is not the file that benchmarks of letter were run with"):
        found = gf.datasets.load("letter")
    assert np.array_equal(found[0], X)
    content = (tmp_path / "letter" / "data.npz").read_bytes()
    monkeypatch.setitem(REGISTRY, "letter", replace(REGISTRY["letter"], sha256=hashlib.sha256(content).hexdigest()))
    part = gf.datasets.load("letter", split=True, seed=3)
    assert len(part.X) + len(part.X_test) == 20_000
    assert 0.18 < len(part.X_test) / 20_000 < 0.22
    assert set(map(bytes, part.X)).isdisjoint(map(bytes, part.X_test))
    again, other = (gf.datasets.load("letter", split=True, seed=seed) for seed in (3, 4))
    assert np.array_equal(again.X_test, part.X_test)
    assert len(other.X_test) != len(part.X_test) or not np.array_equal(other.X_test, part.X_test)


def test_splits_of_the_source_are_kept(monkeypatch, tmp_path):
    entry = replace(REGISTRY["usps"], rows=10, columns=1, sha256="")
    monkeypatch.setitem(REGISTRY, "usps", entry)
    monkeypatch.setitem(REGISTRY, "uci_pol", replace(entry, name="uci_pol"))
    X, y = np.arange(10.0)[:, None], np.arange(10)
    place(monkeypatch, tmp_path, "usps", X=X[:7], y=y[:7], X_test=X[7:], y_test=y[7:])
    assert gf.datasets.load("usps", split=True, seed=9).y_test.tolist() == [7, 8, 9]
    assert gf.datasets.load("usps")[1].tolist() == list(range(10))
    place(monkeypatch, tmp_path, "uci_pol", X=X, y=y, test_mask=np.stack([y % 2 == 0, y > 6], 1))
    assert gf.datasets.load("uci_pol", split=True).y_test.tolist() == [0, 2, 4, 6, 8]
    assert gf.datasets.load("uci_pol", split=True, seed=1).y_test.tolist() == [7, 8, 9]
    with pytest.raises(ValueError, match="seed must be from 0 to 1"):
        gf.datasets.load("uci_pol", split=True, seed=2)


def test_bad_files_are_named(monkeypatch, tmp_path):
    monkeypatch.setitem(REGISTRY, "usps", replace(REGISTRY["usps"], sha256=""))
    place(monkeypatch, tmp_path, "usps", X=np.zeros((3, 2)), y=np.zeros(3))
    path = tmp_path / "usps" / "data.npz"
    with pytest.raises(gf.datasets.DatasetError, match=r"has shape \(3, 2\) and 3 targets"):
        gf.datasets.load("usps")
    np.savez(path, A=np.zeros(3))
    with pytest.raises(gf.datasets.DatasetError, match=r"has arrays \['A'\]"):
        gf.datasets.load("usps")
    np.savez(path, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(gf.datasets.DatasetError, match="not a whole npz file"):  # pickles are not opened
        gf.datasets.load("usps")
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(gf.datasets.DatasetError, match="not a whole npz file"):
        gf.datasets.load("usps")


@pytest.mark.parametrize("name", ["../iris", "/etc/passwd", "iris/..", "", "irs", None, "mnist\x00"])
def test_names_are_only_names(monkeypatch, tmp_path, name):
    monkeypatch.setenv("GYRFALCON_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="there is no data set"):
        gf.datasets.load(name)
    with pytest.raises(ValueError, match="did you mean iris"):
        gf.datasets.load("irs")


def test_bundled_ones_are_those_of_scikit_learn():
    for name in ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"):
        X, y = gf.datasets.load(name)
        assert X.shape == (gf.datasets.describe(name).rows, gf.datasets.describe(name).columns)
        assert len(y) == len(X)
    assert np.array_equal(gf.datasets.load("digits")[0], load_digits().data)


def test_readers_of_archives(tmp_path):
    random = np.random.default_rng(0)
    files = {}
    for part, count in (("train", 5), ("t10k", 2)):
        files[f"{part}-images-idx3"] = bytes(16) + random.integers(0, 256, (count, 784), dtype=np.uint8).tobytes()
        files[f"{part}-labels-idx1"] = bytes(8) + bytes(range(count))
    path = tmp_path / "mnist.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}-ubyte")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    arrays = readers.mnist(path)
    assert {key: array.shape for key, array in arrays.items()} == {
        "X": (5, 784),
        "X_test": (2, 784),
        "y": (5,),
        "y_test": (2,),
    }
    assert arrays["X"].tobytes() == files["train-images-idx3"][16:]


def test_flights_are_the_same_from_both_files(tmp_path):
    import datetime

    import pyarrow as pa
    from pyarrow import parquet

    date = datetime.datetime(2001, 3, 14, 9, 26)  # a Wednesday
    table = pa.table({"date": [date], "delay": [7], "distance": [2176], "origin": ["LAS"], "destination": ["PHL"]})
    parts = {
        "flights-3m.parquet": io.BytesIO(),
        "airports.csv": io.BytesIO(b"iata,latitude,longitude\nLAS,36,-115\nPHL,40,-75\n"),
    }
    parquet.write_table(table, parts["flights-3m.parquet"])
    path = tmp_path / "flights.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, file in parts.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = file.seek(0, io.SEEK_END)
            file.seek(0)
            archive.addfile(member, file)
    compact = {
        "month": [3],
        "day": [14],
        "wday": [2],
        "minute": [9 * 60 + 26],
        "dist": [2176],
        "o": [0],
        "d": [1],
        "y": [7],
    }
    compact = {key: np.array(value) for key, value in compact.items()} | {"latlon": np.array([[36, -115], [40, -75]])}
    one, other = readers.flights(path), readers.compact_flights(compact)
    assert one["X"].tolist() == other["X"].tolist() == [[3, 14, 2, 566, 2176, 36, -115, 40, -75]]
    assert one["y"].tolist() == other["y"].tolist() == [7]


def test_the_registry_is_complete():
    assert list(REGISTRY) == sorted(REGISTRY) == gf.datasets.names()
    assert sorted([*gf.datasets.names("regression"), *gf.datasets.names("classification")]) == gf.datasets.names()
    for name, entry in REGISTRY.items():
        assert name == entry.name
        assert entry.licence
        assert entry.citation
        assert entry.kind in ("bundled", "remote", "placed")
        remote = entry.kind == "remote"
        assert remote == bool(entry.url) == (name in readers.READERS)
        if remote:
            assert entry.url.startswith("https://")
            assert len(entry.sha256) == 64
            assert entry.size > 0
    with pytest.raises(ValueError, match="task must be"):
        gf.datasets.names("ranking")


def test_generators_repeat_themselves():
    for make in (
        gf.datasets.make_cube,
        gf.datasets.make_oblique,
        gf.datasets.make_noisy_classes,
        gf.datasets.make_trips,
    ):
        X, y = make(300)
        again, other = make(300)[0], make(300, seed=1)[0]
        assert np.array_equal(X, again)
        assert not np.array_equal(X, other)
        assert len(X) == len(y) == 300
    longer = gf.datasets.make_trips(400)
    assert np.array_equal(longer[0][:300], gf.datasets.make_trips(300)[0])
    X, y = gf.datasets.make_cube(50, noise=0.0)
    assert np.allclose(y, np.sin(4.5 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.5 * np.sin(7.5 * X[:, 2]), atol=1e-6)
