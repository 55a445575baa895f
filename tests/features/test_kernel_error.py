"""How near the features come to the kernel: no bias, an error that falls as 1 / √D, less of it with orthogonal ones."""

import functools

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

import gyrfalcon as gf
from gyrfalcon import kernels as gk
from reference import dense

KERNELS = {
    "gaussian": gk.Gaussian(1.5),
    "per feature": gk.Gaussian([1.0, 2.0, 3.0]),
    "laplacian": gk.Laplacian(2.0),
    "matern12": gk.Matern(1.5, nu=0.5),
    "matern32": gk.Matern([1.0, 2.0, 3.0], nu=1.5),
    "matern52": gk.Matern(1.5, nu=2.5),
    "rational": gk.RationalQuadratic(1.5, alpha=0.7),
    "cauchy": gk.Cauchy(1.5),
    "mapped": gk.Mapped(gk.Matern([1.0, 2.0], nu=2.5), [[1.0, 0.5, 0.0], [0.0, -1.0, 0.7]]),
    "mapped twice and scaled": 2.5 * gk.Mapped(gk.Mapped(gk.Gaussian(1.0), [[1.0, -0.5]]), np.eye(2, 3)),
}
SAMPLINGS = ["fourier", "orthogonal", "structured"]


@functools.cache
def points(n=25, d=3):
    return np.random.default_rng(0).normal(size=(n, d))


def estimates(kernel, D, sampling, seeds, X):
    for seed in range(seeds):
        Z = gf.RandomFeatures(kernel, D, sampling=sampling, random_state=seed).fit_transform(X)
        yield Z @ Z.T


def rms(kernel, D, sampling, seeds, X):
    K = dense(kernel, X, X)
    return np.sqrt(np.mean([(found - K) ** 2 for found in estimates(kernel, D, sampling, seeds, X)]))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_mean_is_the_kernel(name, sampling):
    X, seeds = points(), 60
    found = np.array(list(estimates(KERNELS[name], 512, sampling, seeds, X)))
    errors = found.std(0) / seeds**0.5
    gaps = np.abs(found.mean(0) - dense(KERNELS[name], X, X))
    slack = 0.004 if sampling == "structured" else 1e-12  # of order 1/p, p = 64
    assert (gaps <= 5 * errors + slack).all()
    assert errors.max() < 0.02  # so that another kernel would be noticed


def test_another_kernel_is_noticed():
    X = points()
    found = np.mean(list(estimates(gk.Laplacian(2.0), 512, "fourier", 60, X)), 0)
    assert np.abs(found - dense(gk.Matern(2.0, nu=1.5), X, X)).max() > 0.1


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern52"])
def test_the_error_falls_as_one_over_the_root_of_the_features(name, sampling):
    X = points(20, 3)
    sizes = 2 ** np.arange(7, 14, 2)
    errors = [rms(KERNELS[name], int(D), sampling, 25, X) for D in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4


def test_orthogonal_frequencies_vary_less():
    X = points(30, 10)
    kernel = gk.Gaussian(4.0)
    independent, orthogonal, structured = (rms(kernel, 120, sampling, 40, X) for sampling in SAMPLINGS)
    assert orthogonal < 0.75 * independent
    assert structured < 0.75 * independent


def test_errors_are_of_the_size_of_those_of_scikit_learn():
    X = points(30, 10)
    K = dense(gk.Gaussian(4.0), X, X)
    theirs = []
    for seed in range(40):
        Z = RBFSampler(gamma=1 / 32, n_components=120, random_state=seed).fit_transform(X)
        theirs.append((Z @ Z.T - K) ** 2)
    ratio = rms(gk.Gaussian(4.0), 120, "fourier", 40, X) / np.sqrt(np.mean(theirs))
    assert 0.4 < ratio < 1.05  # a cosine and a sine of each frequency know that k(x, x) is one


def test_pairs_depend_on_differences_alone():
    X = points()
    features = gf.RandomFeatures("gaussian", 40, random_state=0).fit(X)
    Z, moved = features.transform(X), features.transform(X + 3.0)
    np.testing.assert_allclose(Z @ Z.T, moved @ moved.T, atol=1e-13)
    np.testing.assert_allclose((Z**2).sum(1), 1)


def test_frequencies_are_orthogonal_in_blocks():
    X = points(5, 10)
    W = gf.RandomFeatures("matern", 50, sampling="orthogonal", length_scale=1.0, random_state=0).fit(X).frequencies_
    one, two = W[:20:2], W[20:40:2]
    for block in (one, two):
        gram = block @ block.T
        np.testing.assert_allclose(gram, np.diag(gram.diagonal()), atol=1e-10 * gram.max())
    assert np.abs(one @ two.T).max() > 0.1
    np.testing.assert_array_equal(W[1::2], -W[::2])
