"""Kernels are judged with the noise that they are then fitted with."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import gyrfalcon as gf
from gyrfalcon.tuning.judging import FOLDS, Judge
from gyrfalcon.tuning.rows import Data, shuffled
from gyrfalcon.tuning.trace import Trace
from gyrfalcon.tuning.tuner import Tuned

KERNEL, NOISE = gf.kernels.Gaussian(1.5), 20.0
FACTORS = (0.064, 0.16, 0.4, 2.5)


def waves(rows, noise=0.1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + noise * rng.normal(size=rows)
    return X, (y - y.mean()) / y.std()


def judged(X, y, kept, held, factors=(), weights=None):
    data = Data(X, y[:, None], weights)
    judge = Judge(data, kept, held, factors, 1 << 28)
    return judge(Tuned(data.problem(KERNEL, None, 1.0, 1 << 28), Trace()), 0, NOISE)


def squares(X, y, kept, held, noise, weights=None):
    """Of residuals on some rows, of ridge regression on others."""
    own = None if weights is None else weights[kept]
    ridge = KernelRidge(alpha=noise, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X[kept], y[kept], own)
    return np.square(ridge.predict(X[held]) - y[held])


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_ridge_regression_with_that_noise_on_the_rows_that_are_kept(weighted):
    X, y = waves(300)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300) if weighted else None
    kept, held = np.arange(200), np.arange(200, 300)
    found = judged(X, y, kept, held, weights=weights)
    own = weights[held] if weighted else None
    expected = np.average(squares(X, y, kept, held, NOISE, weights), weights=own)
    assert found.noise == NOISE
    assert found.error == pytest.approx(expected / np.average(y**2, weights=weights), rel=1e-6)


def test_errors_of_folds_are_those_of_ridge_regression_with_that_noise_on_each():
    X, y = waves(240)
    found = judged(X, y, np.arange(240), None)
    parts = np.split(np.arange(240), FOLDS)
    total = sum(squares(X, y, np.setdiff1d(np.arange(240), part), part, NOISE).sum() for part in parts)
    assert found.error == pytest.approx(total / np.square(y).sum(), rel=1e-6)


def test_a_noise_that_is_too_large_is_lowered_step_by_step():
    X, y = waves(300)
    kept, held = np.arange(200), np.arange(200, 300)
    errors = {factor: squares(X, y, kept, held, factor * NOISE).mean() for factor in (1.0, *FACTORS)}
    assert min(errors, key=errors.get) == min(FACTORS)
    assert judged(X, y, kept, held, FACTORS).noise == pytest.approx(min(FACTORS) * NOISE)


def test_the_error_that_is_told_is_that_of_the_kernel_and_the_noise_of_the_model():
    X, y = waves(1000, noise=0.5)
    model = gf.KernelRegressor("laplacian", random_state=0).fit(X, y)
    stage = model.tuning_.stages[0]
    assert stage.name == "length scales"
    order = shuffled(X)
    kept, held = order[:667], order[667:]
    K = np.asarray(gf.KernelMatrix(model.kernel_, X, X[kept]).to_dense())

    def error(noise):
        ridge = KernelRidge(alpha=noise, kernel="precomputed").fit(K[kept], y[kept])
        return np.square(ridge.predict(K[held]) - y[held]).mean()

    noise = model.penalty_ * len(X)
    told = stage.candidates[stage.chosen].value
    assert told == pytest.approx(error(noise), rel=2e-3)  # kernel and noise are rounded to two digits
    assert abs(error(3 * noise) - told) > 1e-2 * told
