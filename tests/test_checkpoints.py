"""Checkpoints: a fit that is killed goes on where it was and ends with the same coefficients, bit for bit."""

import copy
import errno
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone

import gyrfalcon as gf
from gyrfalcon import checkpoints
from gyrfalcon.checkpoints import Checkpoint, CheckpointError, CheckpointWarning
from gyrfalcon.estimators import beginning
from gyrfalcon.linalg.cg import CGState, conjugate_gradients
from gyrfalcon.tuning import PenaltyPath, Tuning

pytestmark = pytest.mark.usefixtures("one_thread")

random = np.random.default_rng(0)
X = random.normal(size=(300, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.normal(size=300)
many = np.stack([y, np.cos(X[:, 0]), X[:, 2]], 1)
labels = np.array(["a", "b", "c"])[np.digitize(y, [0.3, 1.5])]
weights = random.uniform(0.2, 3.0, 300)
wide = random.normal(size=(300, 64))  # features: enough that K is kept in memory
few_zeros = sparse.csr_array(np.where(random.uniform(size=(300, 30)) < 0.2, random.normal(size=(300, 30)), 0.0))


class KilledError(BaseException):
    """Stands for a signal that ends the process."""


@pytest.fixture(autouse=True)
def _every_iteration(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "PAUSE", 0)


def killed_after(monkeypatch, saves):
    """From now on a process dies when it has written so many files besides its start."""
    left = [saves]
    original = Checkpoint.save

    def save(self, *args):
        written = original(self, *args)
        left[0] -= 1
        if left[0] == 0:
            raise KilledError
        return written

    monkeypatch.setattr(Checkpoint, "save", save)


def killed_in(monkeypatch, stage, saves):
    """From now on a process dies when it has written the file of a stage so often."""
    left = [saves]
    original = Checkpoint.save

    def save(self, name, *args):
        written = original(self, name, *args)
        left[0] -= name == stage
        if left[0] == 0:
            raise KilledError
        return written

    monkeypatch.setattr(Checkpoint, "save", save)


def fit_in_pieces(monkeypatch, model, *data, **more):
    """Killed after every file that is written, and called again: how often, and the model."""
    for kills in range(500):
        again = clone(model)
        with monkeypatch.context() as patch:
            killed_after(patch, 1)
            try:
                return kills, again.fit(*data, **more)
            except KilledError:
                pass
    raise AssertionError("it does not get on")


def assert_same(model, other):
    assert np.array_equal(model.coefficients_, other.coefficients_)
    assert np.array_equal(model.intercept_, other.intercept_)
    centers = [m.centers_.toarray() if sparse.issparse(m.centers_) else np.asarray(m.centers_) for m in (model, other)]
    assert np.array_equal(*centers)
    assert model.kernel_ == other.kernel_
    assert model.penalty_ == other.penalty_
    for name in ("solver", "iterations", "residuals", "message", "objective", "objective_history", "passes"):
        assert getattr(model.record_, name) == getattr(other.record_, name), name
    assert model.record_.validation_errors == other.record_.validation_errors
    assert model.record_.inner_iterations == other.record_.inner_iterations


def falkon(max_iterations=40):
    return gf.solvers.Falkon(tolerance=1e-9, max_iterations=max_iterations)


def newton(tolerance=1e-9):
    return gf.solvers.Newton(tolerance=tolerance, max_iterations=40)


def patient(patience):
    """Early stopping as True has it, but for how long it waits."""
    return gf.solvers.EarlyStopping(validation=0.1, patience=patience, tolerance=0.0)


plain = {"kernel": "gaussian", "length_scale": 1.0, "n_centers": 40, "tune": None, "random_state": 0}
regressor = {**plain, "solver": falkon(), "penalty": 1e-6}
classifier = {**plain, "solver": newton(), "loss": "logistic", "penalty": 1e-5}
kernel = gf.kernels.Laplacian(2.0)
tuned = {**regressor, "solver": gf.solvers.Falkon(max_iterations=5), "penalty": "auto", "length_scale": "auto"}


def tuning(**settings):
    return {**tuned, "tune": Tuning(**{"steps": 8, "rows": 150, "tolerance": 1e-12, **settings})}


CASES = {
    # name: model, arguments of fit, kills at least
    "float64": (gf.KernelRegressor(**regressor), (X, y), 30),
    "float32 that goes on in float64": (
        gf.KernelRegressor(**{**regressor, "penalty": 1e-11, "length_scale": 3.0, "solver": falkon(60)}),
        (X.astype(np.float32), y),
        20,
    ),
    "outputs and weights": (gf.KernelRegressor(**regressor), (X, many, weights), 30),
    "outputs, by columns": (gf.KernelRegressor(**regressor), (np.asfortranarray(X), np.asfortranarray(many)), 30),
    "early stopping": (
        gf.KernelRegressor(**{**regressor, "penalty": 1e-9, "early_stopping": patient(6)}),
        (X, many, weights),
        8,
    ),
    "early stopping in float32": (
        gf.KernelRegressor(**{**regressor, "early_stopping": patient(30)}),
        (X.astype(np.float32), y),
        8,
    ),
    "sparse": (gf.KernelRegressor(**{**regressor, "length_scale": 3.0}), (few_zeros, y), 20),
    "kept K": (gf.KernelRegressor(**{**regressor, "length_scale": 10.0}), (wide, many), 10),
    "tensor": (gf.KernelRegressor(**regressor), (torch.from_numpy(X), y), 20),
    "uncertainty": (gf.KernelRegressor(**regressor, uncertainty=True), (X, y), 20),
    "robust": (gf.KernelRegressor(**{**plain, "solver": newton(), "loss": "robust", "penalty": 1e-5}), (X, y), 5),
    "logistic": (gf.KernelClassifier(**classifier), (X, labels == "a", weights), 5),
    "logistic, float32": (gf.KernelClassifier(**classifier), (X.astype(np.float32), labels == "a"), 5),
    "logistic until rounding": (
        gf.KernelClassifier(**{**classifier, "n_centers": 20, "solver": newton(0.0)}),
        (X, labels == "a"),
        8,
    ),
    "logistic, kept K": (  # in float32: of float64 points Newton keeps features instead
        gf.KernelClassifier(**{**classifier, "length_scale": 32.0, "solver": newton(1e-5)}),
        (np.tile(wide, 16).astype(np.float32), labels == "a"),
        5,
    ),
    "logistic, kept features": (gf.KernelClassifier(**{**classifier, "length_scale": 8.0}), (wide, labels == "a"), 5),
    "softmax": (gf.KernelClassifier(**{**classifier, "n_centers": 20, "solver": newton(1e-6)}), (X, labels), 5),
    "softmax, early stopping": (
        gf.KernelClassifier(**{**classifier, "n_centers": 20, "penalty": 1e-7, "early_stopping": True}),
        (X, labels),
        5,
    ),
    "Falkon": (gf.Falkon("gaussian", length_scale=1.0, penalty=1e-6, n_centers=40, random_state=0), (X, y), 10),
    "LogisticFalkon": (
        gf.LogisticFalkon("gaussian", length_scale=1.0, penalty=1e-5, n_centers=40, random_state=0),
        (X, labels),
        5,
    ),
    "k-means": (gf.KernelRegressor(**{**regressor, "centers": "kmeans", "solver": falkon(5)}), (X, y), 5),
    "leverage": (gf.KernelRegressor(**{**regressor, "centers": "leverage", "solver": falkon(5)}), (X, y), 5),
    "pivoted": (gf.KernelRegressor(**{**regressor, "centers": "pivoted", "solver": falkon(5)}), (X, y), 5),
    "direct": (gf.KernelRegressor(**{**regressor, "solver": "direct"}), (X, y), 1),
    "eigenpro": (
        gf.KernelRegressor(**{**regressor, "solver": gf.solvers.EigenPro(tolerance=1e-9, max_iterations=8)}),
        (X, many, weights),
        7,
    ),
    "eigenpro, all rows": (gf.KernelRegressor(kernel, solver="eigenpro", random_state=1), (X[:90], y[:90]), 2),
    "sgd": (gf.KernelRegressor(**{**regressor, "solver": gf.solvers.SGD(max_iterations=8)}), (X, y), 7),
    "L-BFGS": (gf.KernelRegressor(**tuning()), (X, y), 10),
    "Adam": (gf.KernelRegressor(**tuning(optimizer="adam")), (X, y), 10),
    "stochastic": (gf.KernelRegressor(**tuning(optimizer="adam", method="stochastic", steps=4)), (X, many), 8),
    "centers": (gf.KernelRegressor(**{**tuning(centers=True), "n_centers": 10}), (X, y), 10),
    "map": (gf.KernelRegressor(**tuning(feature_map=True, rounds=1, steps=2)), (X[:150], y[:150]), 8),
    "two kernels": (gf.KernelRegressor(**{**tuning(steps=12), "kernel": "auto"}), (X, y), 10),
    "grid": (gf.KernelRegressor(**{**tuned, "tune": PenaltyPath(rows=100, n_centers=20)}), (X, y), 5),
    "exact": (gf.KernelRegressor(random_state=0), (X[:90], y[:90]), 5),
    "automatic": (gf.KernelClassifier(random_state=0, n_centers=20, loss="logistic"), (X[:90], labels[:90]), 10),
}


@pytest.mark.parametrize("name", CASES)
def test_killed_after_every_file_it_ends_the_same(name, tmp_path, monkeypatch):
    model, data, least = CASES[name]
    whole = clone(model).fit(*data)
    kills, pieces = fit_in_pieces(monkeypatch, clone(model).set_params(checkpoint=tmp_path), *data)
    assert kills >= least
    assert_same(pieces, whole)
    assert os.listdir(tmp_path) == []
    if "goes on in float64" in name:
        assert "in float64" in whole.record_.message
        assert whole.record_.iterations > 20
    if "until rounding" in name:
        assert "rounding" in whole.record_.message
    if "kept K" in name:
        assert "engine: cached" in whole.record_.plan
    if "early stopping" in name:
        assert len(whole.record_.validation_errors) >= 8
    if hasattr(whole, "tuning_") and isinstance(whole.tuning_, gf.tuning.Trace):
        assert pieces.tuning_.values == whole.tuning_.values
        assert [s.parameters for s in pieces.tuning_.steps] == [s.parameters for s in whole.tuning_.steps]
        assert [s.terms for s in pieces.tuning_.steps] == [s.terms for s in whole.tuning_.steps]
        assert pieces.tuning_.evaluations == whole.tuning_.evaluations
    if name == "grid":
        assert np.array_equal(pieces.tuning_.errors, whole.tuning_.errors)


# What chance and the machine decide.


@pytest.mark.parametrize("state", [None, np.random.RandomState(3)])
def test_what_was_drawn_is_drawn_once(state, tmp_path, monkeypatch):
    """No seed: the rows set aside and the centers are those of the first run, or the state would mean nothing."""
    model = gf.KernelRegressor(**{**regressor, "early_stopping": True, "random_state": state, "solver": falkon(6)})
    drawn = []
    original = beginning.Checkpoint.begin
    monkeypatch.setattr(Checkpoint, "begin", lambda self, facts: drawn.append(original(self, facts)) or drawn[-1])
    kills, pieces = fit_in_pieces(monkeypatch, model.set_params(checkpoint=tmp_path), X, y)
    assert kills > 5
    assert all(facts == drawn[0] for facts in drawn)
    monkeypatch.setattr("gyrfalcon.estimators.regressor.begin", lambda *_: beginning.Beginning(**drawn[0]))
    assert_same(pieces, clone(model).set_params(checkpoint=None).fit(X, y))


def test_the_memory_that_was_free_at_the_start_counts(tmp_path, monkeypatch):
    """It decides how many centers there are, and how rows are cut into blocks."""
    budgets = iter([60_000, 10**9])
    monkeypatch.setattr(beginning, "default_budget", lambda device: next(budgets))
    model = gf.KernelRegressor(**{**regressor, "n_centers": "auto", "solver": falkon(4)}, checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("gyrfalcon.centers.select", lambda *_, **__: (_ for _ in ()).throw(KilledError))
        with pytest.raises(KilledError):
            clone(model).fit(X, y)
    pieces = clone(model).fit(X, y)
    whole = clone(model).set_params(checkpoint=None, memory_budget=60_000).fit(X, y)
    assert len(whole.centers_) < 250
    assert_same(pieces, whole)


def test_a_warm_start_that_was_killed(tmp_path, monkeypatch):
    first = gf.KernelRegressor(**regressor, warm_start=True).fit(X, y)
    whole = copy.deepcopy(first).fit(X, y + 0.1 * X[:, 2])
    pieces = copy.deepcopy(first).set_params(checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        killed_after(patch, 7)
        with pytest.raises(KilledError):
            pieces.fit(X, y + 0.1 * X[:, 2])
    assert_same(pieces, first)
    other = gf.KernelRegressor(**{**regressor, "penalty": 1e-5}, warm_start=True).fit(X, y)
    with pytest.raises(CheckpointError, match="coefficients_"):
        other.set_params(penalty=1e-6, checkpoint=tmp_path).fit(X, y + 0.1 * X[:, 2])
    assert_same(pieces.fit(X, y + 0.1 * X[:, 2]), whole)


def test_validation_data_are_part_of_the_fit(tmp_path, monkeypatch):
    model = gf.KernelRegressor(**{**regressor, "early_stopping": patient(30)}, checkpoint=tmp_path)
    whole = clone(model).set_params(checkpoint=None).fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    with monkeypatch.context() as patch:
        killed_after(patch, 9)
        with pytest.raises(KilledError):
            model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    with pytest.raises(CheckpointError, match="differs in X_val, y_val"):
        model.fit(X[:200], y[:200], X_val=X[201:], y_val=y[201:])
    assert_same(model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:]), whole)


def test_a_time_budget_counts_all_runs(tmp_path, monkeypatch):
    model = gf.KernelRegressor(**tuning(seconds=30.0, steps=3), checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        killed_after(patch, 3)
        with pytest.raises(KilledError):
            model.fit(X, y)
    seen = []
    original = Tuning.__post_init__
    monkeypatch.setattr(Tuning, "__post_init__", lambda self: seen.append(self.seconds) or original(self))
    clone(model).fit(X, y)
    assert 0 < min(seen) < 30.0


# Files that are not what they should be.


def interrupted(tmp_path, monkeypatch, model=None, saves=9, data=(X, y)):
    model = (model or gf.KernelRegressor(**regressor)).set_params(checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        killed_after(patch, saves)
        with pytest.raises(KilledError):
            clone(model).fit(*data)
    return model


def files(folder):
    return {path.name.removeprefix("gyrfalcon-").removesuffix(".safetensors"): path for path in folder.iterdir()}


@pytest.mark.parametrize("stage", ["start", "centers", "solver", "tuning", "evaluations"])
@pytest.mark.parametrize("harm", ["cut", "emptied", "flipped", "another file", "a model", "another stage"])
def test_a_damaged_file_is_a_warning_and_nothing_else_is_lost(stage, harm, tmp_path, monkeypatch):
    early = stage == "evaluations"
    model = gf.KernelRegressor(**tuning(steps=3))
    model.set_params(checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        killed_in(patch, "evaluations" if early else "solver", 3)
        with pytest.raises(KilledError):
            clone(model).fit(X, y)
    path = files(tmp_path)[stage]
    content = path.read_bytes()
    gf.KernelRegressor(tune=None).fit(X[:20], y[:20]).save(tmp_path / "model")
    ruin = {
        "cut": content[: len(content) // 2],
        "emptied": b"",
        "flipped": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
        "another file": b"hello" * 100,
        "a model": (tmp_path / "model").read_bytes(),
        "another stage": files(tmp_path)[
            "start" if stage != "start" else "evaluations" if early else "solver"
        ].read_bytes(),
    }
    path.write_bytes(ruin[harm])
    (tmp_path / "model").unlink()
    with pytest.warns(CheckpointWarning, match=f"{path.name} is damaged"):
        again = clone(model).fit(X, y)
    assert_same(again, clone(model).set_params(checkpoint=None).fit(X, y))
    assert os.listdir(tmp_path) == []


def test_what_a_kill_left_half_written_is_removed(tmp_path, monkeypatch):
    model = interrupted(tmp_path, monkeypatch)
    (tmp_path / "gyrfalcon-solver.safetensorsab12.part").write_bytes(b"half")
    (tmp_path / "mine.part").write_bytes(b"not Gyrfalcon's")
    assert_same(clone(model).fit(X, y), clone(model).set_params(checkpoint=None).fit(X, y))
    assert os.listdir(tmp_path) == ["mine.part"]


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    model = interrupted(tmp_path, monkeypatch)
    path = files(tmp_path)["solver"]
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError, match=r"gyrfalcon-solver.safetensors cannot be read .*: make it readable"):
        clone(model).fit(X, y)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("penalty", {"penalty": 1e-5}),
        ("length_scale", {"length_scale": np.array([1.0, 1.0, 1.0])}),
        ("kernel", {"kernel": "laplacian"}),
        ("solver", {"solver": falkon(41)}),
        ("solver", {"solver": "falkon"}),
        ("early_stopping", {"early_stopping": True}),
        ("random_state", {"random_state": 1}),
        ("tune", {"tune": Tuning()}),
        ("centers", {"centers": X[:40]}),
    ],
)
def test_another_fit_is_refused_and_named(name, change, tmp_path, monkeypatch):
    model = interrupted(tmp_path, monkeypatch)
    before = {stage: path.read_bytes() for stage, path in files(tmp_path).items()}
    with pytest.raises(CheckpointError, match=rf"holds another fit, which differs in {name}: .* delete the directory"):
        clone(model).set_params(**change).fit(X, y)
    assert {stage: path.read_bytes() for stage, path in files(tmp_path).items()} == before
    assert_same(clone(model).set_params(verbose=False).fit(X, y), clone(model).set_params(checkpoint=None).fit(X, y))


def test_other_data_are_refused(tmp_path, monkeypatch):
    model = interrupted(tmp_path, monkeypatch, data=(X, y, weights))
    moved = X.copy()
    moved[17, 1] = np.nextafter(moved[17, 1], 9)
    for data, name in [
        ((moved, y, weights), "X"),
        ((X, y + 1e-9, weights), "y"),
        ((X, y, weights[::-1]), "sample_weight"),
    ]:
        with pytest.raises(CheckpointError, match=f"differs in {name}:"):
            clone(model).fit(*data)
    with pytest.raises(CheckpointError, match="differs in X:"):
        clone(model).fit(X.astype(np.float32), y, weights)
    with pytest.raises(CheckpointError, match="the estimator"):
        gf.Falkon(checkpoint=tmp_path).fit(X, y)


def test_changes_in_large_data_are_seen(monkeypatch):
    from gyrfalcon.estimators import fingerprint

    monkeypatch.setattr(fingerprint, "_BLOCK", 16)
    large = np.zeros((200 * 4, 4), dtype=np.float32)  # more blocks than are looked at entry by entry
    before = fingerprint.digest(large)
    for row in range(800):
        large[row, 3] = 1.0
        assert fingerprint.digest(large) != before
        large[row, 3] = 0.0
    assert fingerprint.digest(large) == before
    assert fingerprint.digest(sparse.csr_array(few_zeros)) != fingerprint.digest(2 * few_zeros)
    same = [fingerprint.digest({"kernel": gf.kernels.Gaussian([1.0, 2.0]), "loss": gf.losses.Logistic()}) for _ in "ab"]
    assert same[0] == same[1] != fingerprint.digest({"kernel": gf.kernels.Gaussian([1.0, 3.0])})
    assert fingerprint.digest(np.array(["a", "b"], dtype=object)) != fingerprint.digest(
        np.array(["a", "c"], dtype=object)
    )


def test_a_complete_fit_leaves_nothing_and_the_next_one_works(tmp_path):
    model = gf.KernelRegressor(**regressor, checkpoint=tmp_path / "made" / "here").fit(X, y)
    assert os.listdir(tmp_path / "made" / "here") == []
    assert model.set_params(penalty=1e-3).fit(X, many).record_.iterations > 3


def test_a_kernel_that_is_a_function(tmp_path, monkeypatch):
    """It cannot be written down, but what evaluations found can."""
    kernel = gf.kernels.Function(lambda A, B: torch.exp(-(torch.cdist(A, B) ** 2) / 2))
    model = gf.KernelRegressor(**{**tuning(steps=4), "kernel": kernel, "length_scale": 1.0})
    model.set_params(length_scale="auto")
    whole = clone(model).fit(X, y)
    kills, pieces = fit_in_pieces(monkeypatch, clone(model).set_params(checkpoint=tmp_path), X, y)
    assert kills > 5
    assert np.array_equal(pieces.coefficients_, whole.coefficients_)


# Disks that are full and folders that are not.


def test_a_full_disk_is_one_warning_and_the_last_file_stays(tmp_path, monkeypatch):
    model = interrupted(tmp_path, monkeypatch)
    before = {stage: path.read_bytes() for stage, path in files(tmp_path).items()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    whole = clone(model).set_params(checkpoint=None).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        patch.setattr(Checkpoint, "clear", lambda self: None)
        with pytest.warns(CheckpointWarning, match="No space left on device.*make room") as caught:
            assert_same(clone(model).fit(X, y), whole)
    assert len(caught) == 1
    assert str(tmp_path) in str(caught[0].message)
    assert {stage: path.read_bytes() for stage, path in files(tmp_path).items()} == before
    assert_same(clone(model).fit(X, y), whole)


def test_a_disk_that_was_full_at_the_start_only(tmp_path, monkeypatch):
    """What is written later is of no use without the start, which then is written too."""
    original, calls = os.fsync, []

    def full_at_first(handle):
        calls.append(handle)
        if len(calls) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(handle)

    monkeypatch.setattr(os, "fsync", full_at_first)
    model = gf.KernelRegressor(**{**regressor, "random_state": None})
    with pytest.warns(CheckpointWarning, match="No space left"):
        interrupted(tmp_path, monkeypatch, model)
    assert {"start", "solver"} <= files(tmp_path).keys()


def test_a_directory_that_cannot_be_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be made a directory"):
        gf.KernelRegressor(checkpoint=tmp_path / "file").fit(X, y)
    with pytest.raises(ValueError, match="checkpoint must be the path of a directory or None, got 3"):
        gf.KernelRegressor(checkpoint=3).fit(X, y)


def test_a_directory_that_is_read_only(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refused)  # the rights themselves would not stop root
    with pytest.warns(CheckpointWarning, match="could not be written") as caught:
        model = gf.KernelRegressor(**regressor, checkpoint=tmp_path).fit(X, y)
    assert len(caught) == 1
    assert_same(model, clone(model).set_params(checkpoint=None).fit(X, y))


def test_writing_takes_a_small_part_of_the_time(tmp_path, monkeypatch):
    monkeypatch.undo()
    clock = [0.0]
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    original = checkpoints.write_whole

    def takes_a_fiftieth_of_a_second(*args):
        clock[0] += 0.02
        return original(*args)

    checkpoint = Checkpoint(tmp_path, {}, every_seconds=0.0)
    checkpoint.begin({})
    monkeypatch.setattr(checkpoints, "write_whole", takes_a_fiftieth_of_a_second)
    count = 0
    checkpoint.save("solver", {}, {})
    while clock[0] < 0.6:
        count += checkpoint.due
        checkpoint.keep("solver", lambda: ({}, {}))
        clock[0] += 0.001
    assert count == 1


def test_an_interrupt_keeps_the_checkpoint(tmp_path, monkeypatch):
    """The model has what was reached; the same call again goes on to the end."""
    from gyrfalcon.estimators.monitor import Monitor

    model = gf.KernelRegressor(**regressor, checkpoint=tmp_path)
    original = Monitor.__call__

    def then_interrupt(self, step):
        if step.iteration == 12:
            raise KeyboardInterrupt
        return original(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "__call__", then_interrupt)
        with pytest.warns(UserWarning, match="interrupted after 11"):
            model.fit(X, y)
    assert "solver" in files(tmp_path)
    assert_same(model.fit(X, y), clone(model).set_params(checkpoint=None).fit(X, y))


def test_model_files_do_not_know_of_checkpoints(tmp_path):
    model = gf.KernelRegressor(**regressor, checkpoint=str(tmp_path / "c")).fit(X, y)
    model.save(tmp_path / "model")
    again = gf.load(tmp_path / "model")
    assert again.checkpoint is None
    assert np.array_equal(again.predict(X), model.predict(X))


# Conjugate gradients by themselves.


@pytest.mark.parametrize("bounded", [True, False])
def test_conjugate_gradients_go_on_from_any_iteration(bounded):
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    A = (Q * np.geomspace(1, 1e6, 40)) @ Q.T
    b = np.asfortranarray(rng.normal(size=(40, 3)))
    operator = lambda v: np.asfortranarray(A @ v)  # noqa: E731
    zero = np.einsum("ij,ij->j", b, np.linalg.solve(A, b)) if bounded else None
    kept = []
    more = {"tolerance": 1e-10, "max_iterations": 90, "values_at_zero": zero}
    whole = conjugate_gradients(operator, b, **more, keep=lambda state: kept.append(state.arrays()))
    assert len(kept) > 30
    for arrays in kept:
        part = conjugate_gradients(operator, b, **more, resume=CGState.of(arrays))
        for name in ("solution", "residuals", "values", "converged", "rounded"):
            assert np.array_equal(getattr(part, name), getattr(whole, name)), name


# Processes that are killed.

KILLS = """
    import os, random, signal, sys, time
    import numpy as np, torch
    import gyrfalcon as gf
    from gyrfalcon import checkpoints
    checkpoints.EVERY_SECONDS, checkpoints.PAUSE = 0.0, 0
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2

    def fit(kind, out, checkpoint):
        common = dict(length_scale=1.5, n_centers=60, tune=None, random_state=0, checkpoint=checkpoint)
        if kind == "falkon":
            common |= dict(penalty=1e-10, solver=gf.solvers.Falkon(tolerance=0.0, max_iterations=90))
            model = gf.KernelRegressor("gaussian", **common)
        elif kind == "newton":
            model = gf.KernelClassifier("gaussian", loss="softmax", penalty=1e-4, **common)
        else:
            common |= dict(length_scale="auto", tune=gf.tuning.Tuning(steps=8, tolerance=1e-12, rows=300))
            model = gf.KernelRegressor("matern", **common)
        np.save(out, model.fit(X, np.digitize(y, [0.3, 1.5]) if kind == "newton" else y).coefficients_)

    def child(*fit_arguments, kill_after=None):
        pid = os.fork()  # this process has not computed anything, so that its children are like fresh ones
        if pid == 0:
            fit(*fit_arguments)
            os._exit(0)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert kill_after is not None or status == 0
        return os.WIFSIGNALED(status)

    random.seed(int(sys.argv[1]))
    for kind in ("falkon", "newton", "tuning"):
        began = time.monotonic()
        child(kind, "whole.npy", None)
        took = time.monotonic() - began
        kills = sum(child(kind, "pieces.npy", kind, kill_after=random.uniform(0.1, 0.6) * took) for _ in range(3))
        child(kind, "pieces.npy", kind)
        print(kind, kills, np.array_equal(np.load("whole.npy"), np.load("pieces.npy")), os.listdir(kind))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_kill_9_at_random_moments(tmp_path):
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    seed = str(time.time_ns() % 10**6)
    command = [sys.executable, "-c", textwrap.dedent(KILLS), seed]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        _, kills, rest = line.split(maxsplit=2)
        assert int(kills) >= 1, f"seed {seed}: {line}"
        assert rest == "True []", f"seed {seed}: {line}"
    assert len(done.stdout.splitlines()) == 3
