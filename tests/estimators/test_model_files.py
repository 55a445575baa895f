"""Model files: the same predictions bit for bit, and nothing but models is read."""

import io
import json
import os
import pickle
import stat
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import persistence
from gyrfalcon.persistence import ModelFileError

random = np.random.default_rng(0)
X = random.normal(size=(80, 3))
y = np.sin(X[:, 0])
labels = np.array(["a", "b", "ü"])[np.digitize(X[:, 0], [-0.4, 0.4])]

MODELS = {
    "exact": (gf.KernelRegressor(), y),
    "direct": (gf.KernelRegressor(kernel=gf.kernels.Matern(2.0, nu=2.5) + gf.kernels.Linear(), n_centers=20), y),
    "two outputs": (gf.KernelRegressor(n_centers=20, solver="falkon", uncertainty=True), np.stack([y, -y], 1)),
    "given centers": (
        gf.KernelRegressor(centers=X[:9], length_scale=[1.0, 2.0, 3.0], random_state=np.random.RandomState(0)),
        y,
    ),
    "robust": (gf.KernelRegressor(loss="robust", n_centers=20), y),
    "squared": (gf.KernelClassifier(), labels),
    "logistic": (gf.KernelClassifier(loss="logistic", coding="simplex", class_weight={"a": 2.0}), labels),
    "bool labels": (gf.KernelClassifier(loss="exponential"), y > 0),
    "settings": (
        gf.KernelRegressor(
            solver=gf.solvers.Falkon(tolerance=1e-7, max_iterations=70),
            early_stopping=gf.solvers.EarlyStopping(validation=0.3, patience=4, tolerance=0.01),
        ),
        y,
    ),
    "Falkon": (gf.Falkon(n_centers=30), y),
    "LogisticFalkon": (gf.LogisticFalkon(n_centers=30), labels),
}
KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "tensor": lambda X: torch.from_numpy(X.astype(np.float32)),
    "sparse": sparse.csr_array,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_round_trip_bit_for_bit(name, kind, tmp_path):
    model, targets = MODELS[name]
    points = KINDS[kind](X)
    if kind == "sparse" and name == "direct":
        pytest.skip("sums of kernels have no sparse engine")
    model.fit(points, targets)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = gf.load(path)
    assert type(again) is type(model)
    predicted, expected = again.predict(points), model.predict(points)
    assert type(predicted) is type(expected)
    np.testing.assert_array_equal(np.asarray(predicted), np.asarray(expected))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(np.asarray(again.predict_proba(points)), np.asarray(model.predict_proba(points)))
    elif model._evidence:
        for found, wanted in zip(again.predict(points, True), model.predict(points, True), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert again.record_ == model.record_
    if kind == "float32":
        again.fit(points, targets)  # and can be fitted again


@pytest.mark.parametrize("name", gf.solvers.SOLVERS)
def test_the_settings_of_solvers_are_kept(name, tmp_path):
    """As JSON has them: equal values of the same class, which fit the same model again."""
    changed = {
        "eigenpro": {"tolerance": 1e-2, "max_iterations": 30, "batch_size": 20, "random_state": 3},
        "falkon": {"tolerance": 1e-7, "max_iterations": 70},
        "newton": {"tolerance": 1e-8, "max_iterations": 70},
        "smoothed_newton": {"tolerance": 1e-6, "max_iterations": 70},
        "spectral_cutoff": {"validation": 3, "max_components": 9, "random_state": 3},
        "sgd": {"step": [0.5, 1.0], "decay": 0.25, "batch_size": 4, "averaging": "uniform", "random_state": 3},
    }
    early = {"stopping": gf.solvers.EarlyStopping(validation=3, patience=4, tolerance=0.01), "max_iterations": 60}
    kind = gf.solvers.SOLVERS[name]
    settings = changed.get(name, {}) | (early if hasattr(kind, "stopping") else {})
    solver = kind(**settings)
    assert solver == kind() if name in ("direct", "exact") else solver != kind()
    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), solver=solver, random_state=0).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = gf.load(tmp_path / "m.safetensors")
    assert type(again.solver) is kind
    assert again.solver == solver
    np.testing.assert_array_equal(again.fit(X, y).coefficients_, model.coefficients_)


def test_early_stopping_is_kept(tmp_path):
    model, targets = MODELS["settings"]
    model.fit(X, targets).save(tmp_path / "m.safetensors")
    again = gf.load(tmp_path / "m.safetensors")
    assert again.early_stopping == gf.solvers.EarlyStopping(validation=0.3, patience=4, tolerance=0.01)
    assert again.solver == gf.solvers.Falkon(tolerance=1e-7, max_iterations=70)


def test_another_process_reads_it(tmp_path):
    model = gf.KernelClassifier(loss="logistic").fit(X, labels)
    model.save(tmp_path / "m.safetensors")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, gyrfalcon as gf; folder = sys.argv[1];"
        "print(gf.load(folder + '/m.safetensors').predict_proba(np.load(folder + '/X.npy')).tobytes().hex())"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == model.predict_proba(X).tobytes().hex()


def test_load_of_the_wrong_class_says_so(tmp_path):
    gf.KernelRegressor().fit(X, y).save(tmp_path / "m")
    assert isinstance(gf.KernelRegressor.load(tmp_path / "m"), gf.KernelRegressor)
    with pytest.raises(ModelFileError, match="KernelRegressor, not a KernelClassifier"):
        gf.KernelClassifier.load(tmp_path / "m")


def test_what_cannot_be_saved_says_so(tmp_path):
    for kernel in (lambda a, b: a @ b.T, gf.kernels.Function(lambda a, b: a @ b.T)):
        with pytest.raises((ValueError, TypeError), match="function"):
            gf.KernelRegressor(kernel).fit(X, y).save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    gf.KernelRegressor().fit(X, y).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        gf.KernelRegressor().fit(X, -y).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.safetensors"]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_files_have_the_usual_mode(tmp_path):
    gf.KernelRegressor().fit(X, y).save(tmp_path / "m")
    (tmp_path / "plain").write_bytes(b"")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


# Files that are not models.


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def container(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def saved(model=None):
    model = model or gf.KernelRegressor(n_centers=5, random_state=0).fit(X[:12], y[:12])
    file = io.BytesIO()
    original = persistence.write_whole
    try:
        persistence.write_whole = lambda path, content: file.write(content)
        model.save("anywhere")
    finally:
        persistence.write_whole = original
    return file.getvalue()


def resigned(change):
    """A model file whose description was changed and whose checksum was made to fit."""
    content = saved()
    size = int.from_bytes(content[:8], "little")
    description = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["gyrfalcon"])
    arrays = safetensors.numpy.load(content)
    change(description, arrays)
    text = json.dumps(description)
    return safetensors.numpy.save(arrays, {"gyrfalcon": text, "sha256": persistence._digest(text, arrays)})


def set_(path, value):
    def change(description, arrays):
        *folders, last = path
        for name in folders:
            description = description[name]
        description[last] = value

    return change


FOREIGN = {
    "empty": b"",
    "short": b"\x01\x02",
    "text": b"hello, this is no model at all, it is only text",
    "pickle": pickle.dumps(Bomb()),
    "pickle after a header": container({}, pickle.dumps(Bomb())),
    "pickle as metadata": container({"__metadata__": {"gyrfalcon": pickle.dumps(Bomb(), 0).decode(), "sha256": ""}}),
    "header longer than the file": (10**6).to_bytes(8, "little") + b"{}" * 20,
    "oversize header": (2**62).to_bytes(8, "little") + b"{}" * 20,
    "header of the largest size": (2**64 - 1).to_bytes(8, "little") + b"{}" * 20,
    "no object": container([1, 2]),
    "deep nesting": container(b"[" * 100_000 + b"]" * 100_000),
    "someone else's file": safetensors.numpy.save({"weight": np.zeros(3)}, {"format": "pt"}),
    "no checksum": safetensors.numpy.save({}, {"gyrfalcon": "{}"}),
    "NaN as JSON": container(b'{"__metadata__": NaN}'),
    "another version": resigned(set_(["version"], 99)),
    "unknown model": resigned(set_(["model"], "os.system")),
    "unknown kernel": resigned(set_(["fitted", "kernel", "type"], "Bomb")),
    "a function as kernel": resigned(set_(["fitted", "kernel"], {"type": "Function", "function": "os.system"})),
    "negative length scale": resigned(set_(["fitted", "kernel", "length_scale"], -1)),
    "wrong features": resigned(set_(["fitted", "n_features"], 7)),
    "no state": resigned(set_(["fitted"], {})),
    "state of the wrong kind": resigned(set_(["fitted"], 3)),
    "parameters of the wrong kind": resigned(set_(["parameters"], [])),
    "centers missing": resigned(lambda d, arrays: arrays.pop("centers")),
    "centers not finite": resigned(lambda d, arrays: arrays.update(centers=np.full((5, 3), np.nan))),
    "coefficients too few": resigned(lambda d, arrays: arrays.update(coefficients=np.zeros(2))),
    "coefficients as integers": resigned(lambda d, arrays: arrays.update(coefficients=np.zeros(5, np.int64))),
    "coefficients of three dimensions": resigned(lambda d, arrays: arrays.update(coefficients=np.zeros((5, 1, 1)))),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_files_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").write_bytes(FOREIGN[name])
    with pytest.raises(ModelFileError, match="m: "):
        gf.load("m")
    assert os.listdir(tmp_path) == ["m"]


def test_missing_files_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        gf.load(tmp_path / "none")


def test_every_truncation_is_refused(tmp_path):
    content = saved()
    for size in range(0, len(content), 7):
        (tmp_path / "m").write_bytes(content[:size])
        with pytest.raises(ModelFileError):
            gf.load(tmp_path / "m")


def test_ten_thousand_mutations(monkeypatch):
    """Bytes changed, cut, doubled or moved: an error, or, where only blanks changed, the same model."""
    contents = [saved(), saved(gf.KernelClassifier(n_centers=4).fit(X[:30], labels[:30]))]
    expected = [persistence.build(*persistence.parse(content)).coefficients_ for content in contents]
    generator = np.random.default_rng(0)
    survived = 0
    for trial in range(10_000):
        which = trial % 2
        content = bytearray(contents[which])
        limit = len(content) if trial % 3 else min(len(content), 600)  # the header is where it is interesting
        for _ in range(generator.integers(1, 4)):
            at = int(generator.integers(0, limit))
            match generator.integers(0, 5):
                case 0:
                    content[at % len(content)] = int(generator.integers(0, 256))
                case 1:
                    content[at % len(content)] ^= 1 << int(generator.integers(0, 8))
                case 2:
                    del content[at : at + int(generator.integers(1, 40))]
                case 3:
                    content[at:at] = bytes(generator.integers(0, 256, int(generator.integers(1, 40))).tolist())
                case 4:
                    other = int(generator.integers(0, limit))
                    content[at : at + 8] = content[other : other + 8]
            if not content:
                content = bytearray(b"\0")
        monkeypatch.setattr("builtins.open", lambda *_, _content=bytes(content), **__: io.BytesIO(_content))
        try:
            model = gf.load("mutated")
        except ModelFileError:
            continue
        survived += 1
        np.testing.assert_array_equal(model.coefficients_, expected[which])
    assert survived < 500
