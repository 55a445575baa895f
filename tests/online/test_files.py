"""Model files that go on bit for bit, streams from files, checkpoints that survive a kill, prequential evaluation."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

import gyrfalcon as gf
from gyrfalcon.checkpoints import CheckpointError
from gyrfalcon.online import RecursiveClassifier, RecursiveRegressor, prequential
from gyrfalcon.persistence import ModelFileError, compose, parse
from reference.states import digest


def _data(n=300, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return (
        X,
        X @ rng.normal(size=d) + 0.1 * rng.normal(size=n),
        np.array(["cup", "ball", "a book"])[rng.integers(3, size=n)],
    )


FEATURES = [
    None,
    gf.RandomFeatures(n_features=30, random_state=0),
    gf.RandomFeatures("matern", n_features=31, sampling="structured", length_scale=2.0, random_state=0),
    make_pipeline(StandardScaler(), PCA(3), gf.RandomFeatures(n_features=30, random_state=0)),
    make_pipeline(MinMaxScaler(), Nystroem(n_components=20, random_state=0)),
    FrozenEstimator(StandardScaler().fit(_data()[0])),
]
MODELS = [RecursiveRegressor(features) for features in FEATURES] + [
    RecursiveRegressor(forgetting=0.9),
    RecursiveRegressor(window=37, forgetting=0.99),
    RecursiveRegressor(fit_intercept=False, penalty=3),
    RecursiveClassifier(FEATURES[1]),
    RecursiveClassifier(recode="auto"),
    RecursiveClassifier(rebalance=True, forgetting=0.99),
    RecursiveClassifier(window=20, recode=0.5),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_file_goes_on_bit_for_bit(model, tmp_path):
    X, y, labels = _data()
    y = labels if isinstance(model, RecursiveClassifier) else y
    model.fit(X[:100], y[:100])
    for start in range(100, 160, 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7])
    model.save(tmp_path / "model.safetensors")
    again = gf.load(tmp_path / "model.safetensors")
    assert digest(again) == digest(model)
    for start in range(160, 300, 7):
        for one in (model, again):
            one.partial_fit(X[start : start + 7], y[start : start + 7])
    assert digest(again) == digest(model)
    assert (again.predict(X) == model.predict(X)).all()
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()


def test_what_cannot_be_written_is_refused(tmp_path):
    X, y, _ = _data()
    model = RecursiveRegressor(FunctionTransformer(np.square)).fit(X, y)
    with pytest.raises(ValueError, match="without pickle"):
        model.save(tmp_path / "model.safetensors")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["memory.table", "memory.leftover", "memory.numbers", "totals"])
@pytest.mark.parametrize("damage", ["shape", "missing", "nan"])
def test_files_that_do_not_fit_are_refused(name, damage, tmp_path):
    X, _, labels = _data()
    path = tmp_path / "model.safetensors"
    RecursiveClassifier().fit(X, labels).save(path)
    description, arrays = parse(path.read_bytes())
    if damage == "missing":
        del arrays[name]
    elif damage == "shape":
        arrays[name] = np.ones((2, 3, 4))
    elif name == "totals":
        return
    else:
        arrays[name] = arrays[name] * np.nan
    path.write_bytes(compose(description, arrays))
    with pytest.raises(ModelFileError):
        gf.load(path)


def test_streams_from_files_arrays_and_generators(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, labels = _data()
    frame = pandas.DataFrame(X, columns=list("abcde")).assign(y=y, label=labels)
    frame.drop(columns="label").to_parquet(tmp_path / "rows.parquet")
    frame.drop(columns="y").to_csv(tmp_path / "rows.csv", index=False)
    expected = RecursiveRegressor().fit(X, y)
    table = gf.data.open(tmp_path / "rows.parquet", target="y", dtype=np.float64)
    for stream, options in (
        (tmp_path / "rows.parquet", {"target": "y"}),
        (table, {}),
        ((X, y), {}),
        (((X[i : i + 9], y[i : i + 9]) for i in range(0, 300, 9)), {}),
        ([(X, y, np.ones(300))], {}),
    ):
        model = RecursiveRegressor().fit_stream(stream, rows=77, **options)
        np.testing.assert_allclose(model.coefficients_, expected.coefficients_, atol=1e-6)
        assert model.n_seen_ == 300
    model = RecursiveClassifier().fit_stream(tmp_path / "rows.csv", target="label", rows=50)
    assert model.classes_.tolist() == ["a book", "ball", "cup"]
    for stream, options in (([], {}), ([X], {}), (3, {}), (tmp_path / "rows.csv", {}), ((X, y), {"target": "y"})):
        with pytest.raises((ValueError, TypeError)):
            RecursiveRegressor().fit_stream(stream, **options)


def _stream(count=60, stop=None):
    rng = np.random.default_rng(0)
    for place in range(count):
        X = rng.normal(size=(20, 6))
        if place == stop:
            raise KeyboardInterrupt
        yield X, X @ np.arange(6.0) + rng.normal(size=20)


@pytest.mark.parametrize("options", [{}, {"window": 50}, {"forgetting": 0.99}, {"features": FEATURES[1]}])
def test_a_stream_that_is_interrupted_resumes(options, tmp_path):
    whole = RecursiveRegressor(**options).fit_stream(_stream())
    model = RecursiveRegressor(**options)
    for stop in (10, 35):
        with pytest.raises(KeyboardInterrupt):
            model.fit_stream(_stream(stop=stop), checkpoint=tmp_path, every=60)
        model = RecursiveRegressor(**options)
    model.fit_stream(_stream(), checkpoint=tmp_path, every=60)
    assert digest(model) == digest(whole)
    assert not any(tmp_path.iterdir())


def test_checkpoints_of_other_streams_are_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        RecursiveRegressor().fit_stream(_stream(stop=20), checkpoint=tmp_path, every=60)
    with pytest.raises(CheckpointError, match="another stream"):
        RecursiveRegressor().fit_stream(((X + 1, y) for X, y in _stream()), checkpoint=tmp_path, every=60)
    with pytest.raises(CheckpointError, match="penalty"):
        RecursiveRegressor(penalty=2.0).fit_stream(_stream(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="every"):
        RecursiveRegressor().fit_stream(_stream(), checkpoint=tmp_path, every=0)


KILLED = """
import sys, time, numpy as np
from gyrfalcon.online import RecursiveClassifier

def stream():
    rng = np.random.default_rng(0)
    for place in range(300):
        X, y = rng.normal(size=(20, 10)), rng.integers(1 + place // 40, size=20)
        if place == 1:
            print("begun", flush=True)
        time.sleep(0.002)
        yield X, y

model = RecursiveClassifier(recode="auto").fit_stream(stream(), checkpoint=sys.argv[1], every=100)
model.save(sys.argv[2])
"""


@pytest.mark.skipif(os.name != "posix", reason="kills with SIGKILL")
def test_a_stream_that_is_killed_resumes_bit_for_bit(tmp_path):
    def start(folder, out):
        return subprocess.Popen([sys.executable, "-c", KILLED, folder, out], stdout=subprocess.PIPE, text=True)

    whole = start(tmp_path / "whole", tmp_path / "whole.safetensors")
    assert whole.wait() == 0
    whole.stdout.close()
    for delay in (0.1, 0.4):
        process = start(tmp_path / "killed", tmp_path / "killed.safetensors")
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
    again = start(tmp_path / "killed", tmp_path / "killed.safetensors")
    assert again.wait() == 0
    again.stdout.close()
    assert digest(gf.load(tmp_path / "whole.safetensors")) == digest(gf.load(tmp_path / "killed.safetensors"))


def test_prequential_predicts_before_it_learns():
    X, y, labels = _data()
    found = prequential(RecursiveRegressor(), (X, y), "rmse", rows=50, latest=100)
    guesses, model = [], RecursiveRegressor().fit(X[:50], y[:50])
    for start in range(50, 300, 50):
        guesses.append(model.predict(X[start : start + 50]))
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    np.testing.assert_allclose(found.predicted, np.concatenate(guesses))
    assert found.score == pytest.approx(np.sqrt(np.mean((y[50:] - found.predicted) ** 2)))
    assert found.scores[-1] == pytest.approx(np.sqrt(np.mean((y[200:] - found.predicted[150:]) ** 2)))
    assert found.rows.tolist() == [100, 150, 200, 250, 300]
    assert prequential(RecursiveRegressor().fit(X, y), (X, y)).metric == "nrmse"
    assert prequential(RecursiveClassifier(), (X, labels)).metric == "accuracy"
    assert prequential(RecursiveClassifier(), (X, labels), lambda a, b: 3.0).score == 3.0
    with pytest.raises(ValueError, match="metric must be"):
        prequential(RecursiveRegressor(), (X, y), "loss")
    with pytest.raises(ValueError, match="no batch after the first"):
        prequential(RecursiveRegressor(), (X, y), rows=300)


def test_prequential_draws():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    X, y, _ = _data()
    figure, ax = pyplot.subplots()
    assert prequential(RecursiveRegressor(), (X, y)).plot(ax) is ax
    assert ax.get_ylabel() == "nrmse"
    pyplot.close(figure)
