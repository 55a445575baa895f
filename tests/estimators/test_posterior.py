"""Variances are those of the dense formula, whether few points are asked for or many."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.estimators.posterior import Posterior
from reference.posterior import nystrom_variance

M, ROWS = 20, 90


def problem(length_scale, dtype=np.float64):
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(ROWS, 2)).astype(dtype)
    weights = random.uniform(0.5, 2.0, size=(ROWS, 1))
    new = random.uniform(-3, 3, size=(40 * M, 2)).astype(dtype)
    kernel = gf.kernels.Gaussian(length_scale)
    K, toward = gf.KernelMatrix(kernel, X, X[:M]), gf.KernelMatrix(kernel, new, X[:M])
    moments = gf.moments.Moments.of(K, np.zeros((ROWS, 0)), weights)
    return K, toward, weights, moments.whitening.T, moments.second / moments.sums.weight


@pytest.mark.parametrize("penalty", [1e-8, 1e-4, 1.0])
@pytest.mark.parametrize("count", [1, 2 * M, 40 * M])
def test_variances_are_those_of_the_dense_formula(count, penalty):
    K, toward, weights, T, moments = problem(0.4)
    prior = toward.prior_diagonal()[:count]
    found = Posterior(T, moments, penalty).variance(toward.wide_block, prior)
    whole = slice(0, ROWS)
    expected = nystrom_variance(
        prior, toward.wide_block(slice(0, count)), K.wide_block(whole), K.between_centers(), penalty, weights[:, 0]
    )
    np.testing.assert_allclose(np.sqrt(found), np.sqrt(expected), rtol=0, atol=1e-7)


@pytest.mark.parametrize("penalty", [1e-12, 1e-6])
def test_many_points_get_what_few_get_though_centers_are_nearly_dependent(penalty):
    _, toward, _, T, moments = problem(4.0)
    posterior, prior = Posterior(T, moments, penalty), toward.prior_diagonal()
    many = posterior.variance(toward.wide_block, prior)
    few = [posterior.variance(lambda _, at=at: toward.wide_block(at), prior[at]) for at in parts(len(prior))]
    assert many.min() >= 0
    np.testing.assert_allclose(np.sqrt(many), np.sqrt(np.concatenate(few)), rtol=0, atol=1e-6)


def parts(count):
    return [slice(start, start + M) for start in range(0, count, M)]
