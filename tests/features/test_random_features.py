"""The transformer: scikit-learn's rules, kinds of points, structured frequencies against an explicit matrix."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from scipy.linalg import hadamard
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import gyrfalcon as gf
from gyrfalcon.data import ArraySource
from gyrfalcon.features import structured
from gyrfalcon.features.structured import Structured, walsh_hadamard

SAMPLINGS = ["fourier", "orthogonal", "structured"]
every_sampling = pytest.mark.parametrize("sampling", SAMPLINGS)


@parametrize_with_checks(
    [
        gf.RandomFeatures(n_features=50),
        gf.RandomFeatures("laplacian", 51, sampling="fourier"),
        gf.RandomFeatures("matern", 40, sampling="structured"),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def points(n=60, d=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def waves(X, W):
    angles = np.asarray(X, dtype=np.float64) @ W.T
    return (np.cos(angles) + np.sin(angles)) / len(W) ** 0.5


@every_sampling
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize("D", [1, 7, 130, 400])
def test_features_are_those_of_their_frequencies(sampling, dtype, tolerance, D):
    X = points(33, 70, dtype)
    features = gf.RandomFeatures("matern", D, length_scale=9.0, sampling=sampling, random_state=1).fit(X)
    Z = features.transform(X)
    assert Z.dtype == dtype
    assert Z.shape == (33, D)
    assert features.frequencies_.shape == (D, 70)
    np.testing.assert_allclose(Z, waves(X, features.frequencies_), atol=tolerance * np.abs(X @ X.T).max())
    np.testing.assert_array_equal(np.concatenate([features.transform(X[:9]), features.transform(X[9:])]), Z)


@every_sampling
def test_every_kind_of_points(sampling):
    X = points()
    X[np.abs(X) < 0.5] = 0
    features = gf.RandomFeatures("gaussian", 30, length_scale=2.0, sampling=sampling, random_state=1)
    Z = features.fit_transform(X)
    assert isinstance(Z, np.ndarray)
    names = list("abcde")
    kinds = [
        X[::-1][::-1],
        np.asfortranarray(X),
        sparse.csr_array(X),
        sparse.csr_matrix(X),
        ArraySource(X, dtype=X.dtype),
    ]
    for kind in [*kinds, pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names), X.tolist()]:
        np.testing.assert_allclose(clone(features).fit_transform(kind), Z, atol=1e-13)
    tensor = features.fit(torch.from_numpy(X)).transform(torch.from_numpy(X))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, Z, atol=1e-13)
    assert features.transform(torch.from_numpy(X).float()).dtype == torch.float32


def test_frames_out():
    X = pd.DataFrame(points(), index=range(100, 160))
    features = gf.RandomFeatures(n_features=4, random_state=0).set_output(transform="pandas")
    Z = features.fit_transform(X.rename(columns=str))
    assert list(Z.columns) == [f"randomfeatures{i}" for i in range(4)] == list(features.get_feature_names_out())
    assert list(Z.index) == list(X.index)


def test_same_seed_same_features():
    X = points()
    first, again, other = (gf.RandomFeatures(random_state=seed).fit_transform(X) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    features = gf.RandomFeatures(n_features=10, random_state=3).fit(X)
    features.set_params(n_features=20)
    assert features.transform(X).shape == (60, 10)


def test_a_pipeline_is_nearly_the_kernel_machine():
    X = points(400, 3)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    model = make_pipeline(gf.RandomFeatures("gaussian", 4000, length_scale=1.0, random_state=0), Ridge(0.1)).fit(X, y)
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X, y - y.mean())
    new = points(200, 3, seed=1) / 2
    assert np.abs(model.predict(new) - exact.predict(new) - y.mean()).max() < 0.15 * y.std()
    labels = y > 1
    classifier = make_pipeline(gf.RandomFeatures(random_state=0), LogisticRegression(C=100.0)).fit(X, labels)
    assert classifier.score(X, labels) > 0.1 + LogisticRegression().fit(X, labels).score(X, labels)


def test_the_length_scale_is_that_of_the_estimators():
    X = points() * [1, 10, 100, 1, 1]
    features = gf.RandomFeatures(random_state=0).fit(X)
    assert features.kernel_ == gf.KernelRegressor(kernel="gaussian", tune=None).fit(X, X[:, 0]).kernel_


def test_structured_frequencies_are_those_of_hadamard_matrices():
    X = points(5, 100)
    features = gf.RandomFeatures("gaussian", 500, length_scale=1.0, sampling="structured", random_state=0).fit(X)
    drawn, H = features._drawn, hadamard(128)
    blocks = [
        r[:, None] * (H @ np.diag(D1) @ H @ np.diag(D2) @ H @ np.diag(D3))[:, :100] / 128**1.5
        for (D3, D2, D1), r in zip(drawn.signs.astype(float), drawn.radii, strict=True)
    ]
    assert len(blocks) == 2
    np.testing.assert_allclose(features.frequencies_[::2], np.concatenate(blocks)[:250], atol=1e-12)
    np.testing.assert_array_equal(features.frequencies_[1::2], -features.frequencies_[::2])


@pytest.mark.parametrize("length", [1, 2, 8, 256])
def test_walsh_hadamard_is_the_product_with_the_matrix(length):
    values = points(3, length)
    np.testing.assert_allclose(walsh_hadamard(torch.from_numpy(values)), values @ hadamard(length), atol=1e-12)


@pytest.mark.parametrize("kernel", [gf.kernels.Laplacian(4.0), gf.kernels.Mapped(gf.kernels.Gaussian(), np.eye(3, 5))])
def test_structured_features_without_the_core(monkeypatch, kernel):
    X = points(50)
    features = gf.RandomFeatures(kernel, 201, sampling="structured", random_state=0).fit(X)
    native = features.transform(X)
    monkeypatch.setattr(structured, "core", None)
    monkeypatch.setattr(structured, "BLOCK_BYTES", 1 << 12)  # a few rows at a time
    np.testing.assert_allclose(features.transform(X), native, atol=1e-12)


def test_structured_frequencies_take_little_memory():
    drawn = Structured.draw(
        gf.features.spectrum.Spectrum.of(gf.kernels.Gaussian(), 1000), 10_000, np.random.default_rng(0)
    )
    assert drawn.signs.nbytes + drawn.radii.nbytes < 10_000 * 1000 * 8 / 50


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n_features": 0}, "n_features must be a positive integer, got 0"),
        ({"n_features": 2.5}, "n_features"),
        ({"sampling": "sobol"}, "sampling must be one of"),
        ({"kernel": "linear"}, "random features are known of Cauchy, Gaussian"),
        ({"kernel": gf.kernels.Gaussian() + gf.kernels.Laplacian()}, "random features are known of"),
        ({"kernel": -1.0 * gf.kernels.Gaussian()}, "positive scale"),
        ({"kernel": gf.kernels.Gaussian([1.0, 2.0])}, "length_scale has 2 entries but the points have 5"),
        ({"kernel": gf.kernels.Mapped(gf.kernels.Gaussian(), np.eye(3))}, "matrix has 3 entries"),
        ({"kernel": "gauss"}, "kernel must be"),
        ({"length_scale": -1.0}, "length_scale"),
        ({"length_scale": [1.0, 2.0]}, "length_scale has shape"),
    ],
)
def test_bad_arguments_are_named(settings, named):
    with pytest.raises(ValueError, match=named):
        gf.RandomFeatures(**settings).fit(points())


@pytest.mark.parametrize("sampling", ["orthogonal", "fourier"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("D", [40, 41])
def test_a_few_rows_have_the_features_of_many(sampling, dtype, D):
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(dtype)
    features = gf.RandomFeatures("matern", D, sampling=sampling, random_state=0).fit(X)
    Z, few = features.transform(X), features.transform(X[:3])
    assert few.dtype == dtype
    np.testing.assert_allclose(few, Z[:3], atol=1e-13 if dtype == np.float64 else 1e-5)
    features.fit(2 * X)  # other frequencies
    np.testing.assert_allclose(
        features.transform(X[:3]), features.transform(X)[:3], atol=1e-13 if dtype == np.float64 else 1e-5
    )
