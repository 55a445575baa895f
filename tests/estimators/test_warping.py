"""Features with heavy tails: which they are, and what the defaults do with them."""

import numpy as np
import pytest
from scipy.special import ndtri

import gyrfalcon as gf
from gyrfalcon.estimators.warping import KNOTS, rank_warp
from gyrfalcon.kernels import Gaussian, Warped


def test_features_without_heavy_tails_are_left_alone():
    random = np.random.default_rng(0)
    rare = (random.random((2000, 1)) < 0.01).astype(float)  # far from its median, but it takes two values only
    assert rank_warp(np.hstack([random.normal(size=(2000, 3)), rare, np.ones((2000, 1))]), None) is None


def test_values_are_normal_scores_of_middle_ranks():
    feature = np.array([*np.arange(10.0), 1e9])
    repeated = np.repeat(feature, 100)
    warp = rank_warp(repeated[:, None], None)
    assert warp is None  # a value that so many rows have is no tail
    feature = np.concatenate([np.zeros(900), np.arange(1.0, 100.0), [1e12]])[:, None]
    warp = rank_warp(feature, None)
    assert warp.columns == [0]
    assert warp.knots.shape == warp.values.shape == (1, KNOTS)
    assert warp.values[0, 0] == pytest.approx(ndtri(0.45))
    assert warp.values[0, -1] == pytest.approx(ndtri(0.9995))
    np.testing.assert_allclose(warp(Gaussian()).warp(feature), warp.sample)


def test_a_weight_of_two_is_two_rows():
    X = np.exp(3 * np.random.default_rng(0).normal(size=(500, 2)))
    weights = np.ones(500)
    weights[::3] = 2
    weighted, repeated = rank_warp(X, weights), rank_warp(np.repeat(X, weights.astype(int), axis=0), None)
    np.testing.assert_allclose(weighted.values, repeated.values)
    np.testing.assert_allclose(weighted.knots, repeated.knots)


def test_ranges_that_overflow_are_no_reason_to_fail():
    X = np.array([[-1.7e308], [1.7e308], [0.0], [1.0]] * 50)
    assert rank_warp(X, None) is None


def test_the_defaults_learn_from_features_of_any_tail(tmp_path):
    random = np.random.default_rng(1)
    logarithms = random.normal(size=(900, 3))
    X, y = np.exp(4 * logarithms), logarithms[:, 0] * logarithms[:, 1] + np.sin(2 * logarithms[:, 2])
    model = gf.KernelRegressor(random_state=0).fit(X[:600], y[:600])
    assert isinstance(model.kernel_, Warped)
    assert any("Warped" in candidate.kernel for candidate in model.tuning_.stages[0].candidates)
    assert model.score(X[600:], y[600:]) > 0.8
    plain = gf.KernelRegressor("product_laplacian", random_state=0).fit(X[:600], y[:600])
    assert plain.score(X[600:], y[600:]) < 0.5
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(gf.load(tmp_path / "model").predict(X), model.predict(X))
    assert model.predict(X, return_std=True)[1].shape == (900,)


def test_leaves_are_cut_in_the_features_as_they_are_mapped():
    random = np.random.default_rng(2)
    logarithms = random.normal(size=(1500, 2))
    X, y = np.exp(4 * logarithms), np.sin(4 * logarithms[:, 0]) + logarithms[:, 1]
    warp = rank_warp(X, None)
    kernel = warp(Gaussian(0.5))
    whole = gf.KernelRegressor(kernel, penalty=1e-5, partition=gf.Partition(leaf_rows=400, centers=50)).fit(X, y)
    mapped = gf.KernelRegressor(Gaussian(0.5), penalty=1e-5, partition=gf.Partition(leaf_rows=400, centers=50))
    mapped.set_params(random_state=0).fit(kernel.warp(X), y)
    assert whole.partition_.n_leaves == mapped.partition_.n_leaves > 1
    assert np.abs(whole.predict(X) - y).mean() < 0.05


def test_pixels_are_not_ranked():
    random = np.random.default_rng(3)
    X = np.where(random.random((400, 64)) < 0.01, random.uniform(0, 255, size=(400, 64)), 0.0)
    y = random.normal(size=400)
    assert rank_warp(X, None) is not None
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    assert all("Warped" not in candidate.kernel for candidate in model.tuning_.stages[0].candidates)
