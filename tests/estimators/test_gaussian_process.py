"""Intervals, covariances, samples and the evidence are those of the dense Gaussian process, through any centers."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import gyrfalcon as gf
from gyrfalcon.estimators import uncertainty

N, PENALTY, LENGTH = 120, 1e-3, 0.9
random = np.random.default_rng(0)
X = random.uniform(-3, 3, size=(N, 2))
y = 2 + np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * random.normal(size=N)
NEW = random.uniform(-4, 4, size=(30, 2))


def kernel(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(2) / (2 * LENGTH**2))


def fitted(**settings):
    model = gf.KernelRegressor(gf.kernels.Gaussian(LENGTH), penalty=PENALTY, tune=None, random_state=0, **settings)
    return model.fit(X, y)


def dense(model, C):
    """The posterior covariance of new observations and the evidence, written from the formulas."""
    centered = y - model.intercept_
    if len(C) == N:  # the approximation is the matrix itself, and its inverse would only lose digits
        approximate, left = kernel(X, X), kernel(NEW, X)
    else:
        inverse = np.linalg.inv(kernel(C, C))
        approximate, left = kernel(X, C) @ inverse @ kernel(C, X), kernel(NEW, C) @ inverse @ kernel(C, X)
    system = approximate + N * PENALTY * np.eye(N)
    prior = centered @ np.linalg.solve(system, centered) / N  # the scale of maximum likelihood
    covariance = kernel(NEW, NEW) - left @ np.linalg.solve(system, left.T)
    covariance = prior * (covariance + N * PENALTY * np.eye(len(NEW)))
    sign, determinant = np.linalg.slogdet(prior * system)
    evidence = -N / 2 * np.log(2 * np.pi) - determinant / 2 - centered @ np.linalg.solve(prior * system, centered) / 2
    return covariance, evidence * sign


@pytest.mark.parametrize("settings", [{"solver": "exact"}, {"solver": "direct", "n_centers": 25}])
def test_covariance_and_evidence(settings):
    model = fitted(**settings)
    covariance, evidence = dense(model, np.asarray(model.centers_))
    mean, found = model.predict(NEW, return_cov=True)
    np.testing.assert_array_equal(mean, model.predict(NEW))
    np.testing.assert_allclose(found, covariance, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), model.predict(NEW, return_std=True)[1], rtol=1e-7)
    assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-6)


def test_everything_agrees_with_scikit_learn():
    model = fitted(solver="exact", fit_intercept=False)
    scale = float(model._evidence["prior"][0] * model._targets.unit[0] ** 2)
    signal = ConstantKernel(scale) * RBF(LENGTH) + WhiteKernel(scale * N * PENALTY)
    other = GaussianProcessRegressor(signal, optimizer=None).fit(X, y)
    mean, covariance = other.predict(NEW, return_cov=True)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-6)
    np.testing.assert_allclose(model.predict(NEW, return_cov=True)[1], covariance, rtol=1e-5, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(other.log_marginal_likelihood(), rel=1e-7)


def test_intervals_are_those_of_the_deviation():
    model = fitted()
    mean, std = model.predict(NEW, return_std=True)
    low, high = model.predict_interval(NEW, 0.8)
    np.testing.assert_allclose(low, mean - norm.ppf(0.9) * std, rtol=1e-12)
    np.testing.assert_allclose(high, mean + norm.ppf(0.9) * std, rtol=1e-12)
    for coverage in (0, 1, 95):
        with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
            model.predict_interval(NEW, coverage)
    with pytest.raises(ValueError, match="ask for one of them"):
        model.predict(NEW, return_std=True, return_cov=True)
    lacking = fitted(solver="falkon", n_centers=20)
    for ask in (lacking.log_marginal_likelihood, lambda: lacking.sample_y(NEW), lambda: lacking.predict_interval(NEW)):
        with pytest.raises(ValueError, match="uncertainty=True"):
            ask()


def test_samples_have_the_posterior_s_moments():
    model = fitted(solver="direct", n_centers=25)
    mean, covariance = model.predict(NEW, return_cov=True)
    noise = float(model._evidence["noise"][0] * model._targets.unit[0] ** 2)
    covariance = covariance - noise * np.eye(len(NEW))
    draws = model.sample_y(NEW, 4000, random_state=1)
    assert draws.shape == (30, 4000)
    np.testing.assert_array_equal(draws, model.sample_y(NEW, 4000, random_state=1))
    # The squared distance of the sample mean is a chi square with 30 degrees of freedom, over the number of draws.
    gap = draws.mean(1) - mean
    distance = 4000 * gap @ np.linalg.solve(covariance + 1e-10 * np.eye(30), gap)
    assert distance < 70  # 4.4e-5 of chance
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.std(1), spread, rtol=0.06)  # five deviations of 1/√8000
    assert multivariate_normal(mean, covariance, allow_singular=True).logpdf(draws[:, 0]) > -np.inf
    several = gf.KernelRegressor(tune=None).fit(X, np.stack([y, 10 * y], 1))
    assert several.sample_y(NEW, 3).shape == (30, 2, 3)
    assert several.predict(NEW, return_cov=True)[1].shape == (30, 30, 2)


def test_many_centers_are_seen_through_some_of_them(monkeypatch, tmp_path):
    monkeypatch.setattr(uncertainty, "POSTERIOR_CENTERS", 20)
    model = fitted(solver="falkon", n_centers=60, uncertainty=True)
    assert model._evidence["moments"].shape == (20, 20)
    places = model._evidence["places"]
    scale = model._evidence["prior"] * model._targets.unit**2
    noise = model._evidence["noise"] * model._targets.unit**2
    found = model.predict(NEW, return_std=True)[1] ** 2
    # In units of the prior, which is that of the fit through all centers.
    C = model.centers_[places]
    inverse = np.linalg.inv(kernel(C, C))
    left = kernel(NEW, C) @ inverse @ kernel(C, X)
    system = kernel(X, C) @ inverse @ kernel(C, X) + N * PENALTY * np.eye(N)
    expected = 1 - np.einsum("ij,ji->i", left, np.linalg.solve(system, left.T))
    np.testing.assert_allclose(found, scale * expected + noise, rtol=1e-6)
    full = fitted(solver="direct", n_centers=60)
    np.testing.assert_array_less(0.9 * full.predict(NEW, return_std=True)[1], np.sqrt(found))  # not too sure
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(gf.load(tmp_path / "m").predict(NEW, return_std=True)[1] ** 2, found)


@pytest.mark.parametrize("ending", ["parquet", "csv", "npy", "feather"])
def test_deviations_and_intervals_are_written(tmp_path, ending, monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.base.WIDE_ROWS", 7)  # many chunks
    model = fitted(uncertainty=True)
    path = tmp_path / f"p.{ending}"
    assert model.write_predictions(NEW, path, return_std=True, interval=0.95) == 30
    mean, std = model.predict(NEW, return_std=True)
    low, high = model.predict_interval(NEW)
    expected = np.stack([mean, std, low, high], 1)
    if ending == "npy":
        np.testing.assert_allclose(np.load(path), expected, rtol=1e-12)
        return
    table = gf.tables.read_table(path)
    assert list(table) == ["prediction", "standard_deviation", "lower", "upper"]
    found = np.stack([np.asarray(column) for column in table.values()], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_labels_and_probabilities_are_written_together(tmp_path):
    labels = np.where(y > 2, "high", "low")
    model = gf.KernelClassifier(tune=None).fit(X, labels)
    model.write_predictions(NEW, tmp_path / "p.parquet", probabilities=True)
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["prediction", "probability_high", "probability_low"]
    assert table["prediction"].to_pylist() == model.predict(NEW).tolist()
    np.testing.assert_array_equal(table["probability_high"], model.predict_proba(NEW)[:, 0])
    with pytest.raises(TypeError, match="hold numbers here"):
        model.write_predictions(NEW, tmp_path / "p.npy", probabilities=True)
    with pytest.raises(ValueError, match="does not go with method='predict_proba'"):
        model.write_predictions(NEW, tmp_path / "p.csv", method="predict_proba", probabilities=True)
    several = gf.KernelRegressor(tune=None).fit(X, np.stack([y, 10 * y], 1))
    several.write_predictions(NEW, tmp_path / "p.csv", return_std=True)
    names = ["prediction_y0", "prediction_y1", "standard_deviation_y0", "standard_deviation_y1"]
    assert list(gf.tables.read_table(tmp_path / "p.csv")) == names
