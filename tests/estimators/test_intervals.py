"""Intervals that are made true to rows left out."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.estimators.left_out import leave_out


def data(rows, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, size=(rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * random.standard_t(2.5, size=rows)


def test_what_is_left_out_is_what_a_fit_to_the_others_predicts():
    X, y = data(60)
    kernel, noise, Y = gf.kernels.Gaussian(1.5), 0.3, (y - y.mean())[:, None]
    found = leave_out(kernel, None, X, Y.__getitem__, None, noise=noise, intercept=False)
    for place in (0, 17, 59):
        row = found.rows[place]
        others = np.delete(np.arange(60), row)
        S = kernel(X[others]) + noise * np.eye(59)
        across = kernel(X[row : row + 1], X[others])[0]
        assert found.outputs[place, 0] == pytest.approx(across @ np.linalg.solve(S, Y[others, 0]))
        variance = 1 + noise - across @ np.linalg.solve(S, across)
        assert found.deviations[place] == pytest.approx(np.sqrt(variance / noise))


def test_intervals_hold_the_share_they_say_whatever_the_noise(tmp_path):
    X, y = data(900)
    X_new, y_new = data(4000, seed=1)
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    stage = model.tuning_.stages[-1]
    assert stage.name == "intervals"
    assert stage.candidates[1].value <= stage.candidates[0].value
    low, high = model.predict_interval(X_new, coverage=0.9)
    assert 0.87 < np.mean((low <= y_new) & (y_new <= high)) < 0.93
    plain = gf.KernelRegressor(model.kernel_, penalty=model.penalty_).fit(X, y)
    factor = model.predict(X_new, return_std=True)[1] / plain.predict(X_new, return_std=True)[1]
    np.testing.assert_allclose(factor, factor[0])
    assert factor[0] < 0.97  # tails that are heavier than normal ones make normal intervals too wide
    covariance = model.predict(X_new[:5], return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), model.predict(X_new[:5], return_std=True)[1])
    model.save(tmp_path / "model")
    again = gf.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X_new, return_std=True)[1], model.predict(X_new, return_std=True)[1])


def test_a_penalty_that_is_given_is_the_noise():
    X, y = data(300)
    model = gf.KernelRegressor(penalty=1e-3, random_state=0).fit(X, y)
    assert all(stage.name != "intervals" for stage in model.tuning_.stages)


def test_each_output_has_its_own_factor():
    X, y = data(400)
    Y = np.stack([y, np.sin(X[:, 1]) + 0.1 * np.random.default_rng(5).normal(size=400)], 1)
    model = gf.KernelRegressor(random_state=0).fit(X, Y)
    deviations = model.predict(X, return_std=True)[1]
    inside = np.abs(model.predict(X) - Y) < 1.645 * deviations
    assert (inside.mean(0) > 0.85).all()
    assert model._evidence["widening"].shape == (2,)
