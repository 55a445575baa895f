"""Fits to batches that come once."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import gyrfalcon as gf

pytestmark = pytest.mark.usefixtures("one_thread")


def batches(count=60, rows=200, noise=0.5, seed=0, kind=lambda array: array):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X = rng.uniform(-3, 3, size=(rows, 1))
        yield kind(X), kind(np.sin(2 * X[:, 0]) + noise * rng.standard_normal(rows))


def error(model, kind=lambda array: array):
    X = np.linspace(-2.9, 2.9, 200)[:, None]
    return float(np.sqrt(np.mean((np.asarray(model.predict(kind(X))) - np.sin(2 * X[:, 0])) ** 2)))


@pytest.mark.parametrize("kind", [lambda array: array, torch.from_numpy], ids=["numpy", "torch"])
def test_later_batches_improve_what_the_first_rows_gave(kind):
    settings = {"kernel": gf.kernels.Gaussian(1.0), "n_centers": 40, "random_state": 0}
    start = gf.KernelRegressor(**settings).fit_stream(batches(2, kind=kind), first_rows=400)
    model = gf.KernelRegressor(**settings).fit_stream(batches(60, kind=kind), first_rows=400)
    assert error(model, kind) < 0.6 * error(start, kind)
    assert model.record_.solver == "eigenpro"
    assert model.n_iter_ == 58


def test_classes_come_from_the_first_rows():
    rng = np.random.default_rng(0)

    def labeled(count):
        for _ in range(count):
            labels = rng.integers(3, size=150)
            yield 2 * np.eye(3)[labels] + rng.normal(size=(150, 3)), np.array(["a", "b", "c"])[labels]

    model = gf.KernelClassifier(n_centers=60, random_state=0).fit_stream(labeled(30), first_rows=300)
    X, y = next(labeled(1))
    assert model.score(X, y) > 0.7
    assert model.predict_proba(X).shape == (150, 3)
    unknown = [*labeled(2), (X, np.where(y == "a", "new", y))]
    with pytest.raises(ValueError, match="'new', which is none of the classes"):
        gf.KernelClassifier(n_centers=60).fit_stream(unknown, first_rows=200)


def test_bad_streams_are_told():
    with pytest.raises(ValueError, match="at least one pair"):
        gf.KernelRegressor().fit_stream([])
    with pytest.raises(ValueError, match="first_rows must be a positive"):
        gf.KernelRegressor().fit_stream(batches(), first_rows=0)
    with pytest.raises(ValueError, match="squared loss only"):
        gf.KernelClassifier(loss="logistic").fit_stream(batches())
    other = [*batches(2), (np.zeros((5, 2)), np.zeros(5))]
    with pytest.raises(ValueError, match="2 features"):
        gf.KernelRegressor().fit_stream(other, first_rows=300)


def test_a_model_of_batches_is_saved(tmp_path):
    model = gf.KernelRegressor(n_centers=40, random_state=0).fit_stream(batches(10), first_rows=400)
    model.save(tmp_path / "model.safetensors")
    X = np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_array_equal(gf.load(tmp_path / "model.safetensors").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="return_std"):
        model.predict(X, return_std=True)


@pytest.mark.parametrize("outputs", [1, 3])
def test_float32_with_large_coefficients_is_as_good_as_float64(outputs):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(4000, 1))
    scales = 100.0 ** np.arange(outputs)
    Y = (np.sin(3 * X) + 0.1 * rng.standard_normal((4000, outputs))) * scales
    Y = Y[:, 0] if outputs == 1 else Y
    errors = {}
    for dtype in (np.float32, np.float64):
        parts = [(X[i : i + 200].astype(dtype), Y[i : i + 200].astype(dtype)) for i in range(0, 4000, 200)]
        model = gf.KernelRegressor(gf.kernels.Gaussian(2.0), penalty=1e-10, n_centers=100, random_state=0)
        model.fit_stream(parts, first_rows=1000)
        assert np.linalg.norm(model.coefficients_) > 1e6
        np.testing.assert_allclose(model.record_.objective, 0.01 / (0.51 - 0.01), rtol=0.3)
        found = model.predict(X.astype(dtype)).reshape(4000, -1)
        errors[dtype] = np.sqrt(np.mean((found - np.sin(3 * X) * scales) ** 2, axis=0)) / scales
    np.testing.assert_allclose(errors[np.float32], errors[np.float64], rtol=0.05)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_keep_their_names(library):
    def frames(name="x"):
        for X, y in batches(6):
            yield library.DataFrame({name: X[:, 0]}), library.Series("target", y) if library is pl else pd.Series(y)

    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-3, n_centers=20, random_state=0).fit_stream(
        frames(), first_rows=400
    )
    assert model.feature_names_in_.tolist() == ["x"]
    assert model.predict(library.DataFrame({"x": [0.5, 1.0]})).shape == (2,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(library.DataFrame({"other": [0.5, 1.0]}))


def test_a_bad_batch_leaves_the_old_model():
    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-3, n_centers=20, random_state=0).fit_stream(
        batches(4), first_rows=400
    )
    X = np.linspace(-1, 1, 7)[:, None]
    before, record = model.predict(X), model.record_
    with pytest.raises(ValueError, match="NaN"):
        model.fit_stream([*batches(4, seed=1), (np.full((5, 1), np.nan), np.zeros(5))], first_rows=400)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.record_ is record
    fresh = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-3, n_centers=20)
    with pytest.raises(ValueError, match="NaN"):
        fresh.fit_stream([*batches(4), (np.full((5, 1), np.nan), np.zeros(5))], first_rows=400)
    assert not hasattr(fresh, "coefficients_")
