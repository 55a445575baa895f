"""Fits that have to end in time, by clocks that tests hold."""

import time

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.estimators import deadline as module
from gyrfalcon.estimators.deadline import Deadline, affordable
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.solvers.choice import falkon_seconds
from gyrfalcon.tuning.rows import Data


class Clock:
    """Tells a time that passes by the look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def waves():
    random = np.random.default_rng(0)
    X = random.uniform(size=(3000, 3))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * random.normal(size=3000)


def test_a_deadline_counts_from_where_it_began(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 103.0)
    found = Deadline(10.0, began=100.0)
    assert found.left == pytest.approx(7.0)
    assert found.tuning_seconds == pytest.approx(1.0)  # four seconds in all, of which three are gone
    assert not found.last_call
    monkeypatch.setattr(time, "monotonic", lambda: 109.5)
    assert found.last_call


@pytest.mark.parametrize("slowness", [1.0, 300.0, 1e9])
def test_centers_are_halved_until_the_fit_is_expected_to_end(monkeypatch, waves, slowness):
    X, y = waves
    kernel, data = gf.kernels.Gaussian(0.3), Data(X, y[:, None], None)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(module, "_seconds", lambda problem: slowness * falkon_seconds(problem, module.ITERATIONS))
    found = affordable(Deadline(20.0, 0.0), kernel, data, 3000, 1600, noise=1e-2, squared=True, memory_budget=10**9)
    if slowness == 1.0:
        assert found == (1600, True)
    else:
        assert found.n_centers < 1600
        assert not found.trial
    if slowness == 1e9:
        assert found.n_centers == module.LEAST_CENTERS
    fewer = affordable(Deadline(20.0, 0.0), kernel, data, 3000, 1600, noise=1e-2, squared=False, memory_budget=10**9)
    assert fewer.n_centers <= found.n_centers


def test_a_miniature_fit_keeps_to_the_threads_of_a_small_fit(monkeypatch, waves):
    """Where it took all, it measured how long threads waited for a busy core, and 300,000 rows got 21 centers."""
    X, y = waves
    seen = []
    monkeypatch.setattr(module, "solve", lambda problem, solver: seen.append(torch.get_num_threads()))
    K = gf.KernelMatrix("gaussian", X[:200], X[:20])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        module._seconds(LeastSquares(K, torch.from_numpy(y[:200, None]), 1e-3))
        assert seen == [1, 1]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("estimator", [gf.KernelRegressor, gf.KernelClassifier])
def test_what_was_cut_is_told(monkeypatch, waves, estimator):
    X, y = waves
    target = y if estimator is gf.KernelRegressor else (y > 0.2).astype(int)
    monkeypatch.setattr(time, "monotonic", Clock(0.002))
    monkeypatch.setattr(module, "_seconds", lambda problem: 1.0)  # a machine that is slow
    model = estimator(time_budget=1.0, random_state=0, verbose=False).fit(X, target)
    assert "time budget: 3,000 → " in model.record_.reason
    assert len(model.centers_) < 3000
    assert model.score(X, target) > 0.5
    monkeypatch.setattr(time, "monotonic", Clock(1e-9))
    monkeypatch.setattr(module, "_seconds", lambda problem: 1e-6)
    roomy = estimator(time_budget=1e6, random_state=0, verbose=False).fit(X, target)
    free = estimator(random_state=0, verbose=False).fit(X, target)
    assert "time budget" not in roomy.record_.reason
    np.testing.assert_array_equal(roomy.coefficients_, free.coefficients_)


def test_a_search_that_is_late_keeps_what_it_has(monkeypatch, waves):
    X, y = waves
    monkeypatch.setattr(time, "monotonic", Clock(10.0))
    model = gf.KernelRegressor(time_budget=1.0, random_state=0, verbose=False).fit(X, y)
    assert [stage.name for stage in model.tuning_.stages] == []  # one kernel was tried, so there was no choice
    assert np.isfinite(model.predict(X)).all()


def test_iterations_stop(monkeypatch, waves):
    X, y = waves
    solver = gf.solvers.Falkon(tolerance=1e-14, max_iterations=200)
    options = {"kernel": "gaussian", "penalty": 1e-9, "n_centers": 300, "tune": None, "random_state": 0}
    free = gf.KernelRegressor(solver=solver, **options).fit(X, y)
    monkeypatch.setattr(time, "monotonic", Clock(0.5))
    stopped = gf.KernelRegressor(solver=solver, time_budget=10.0, **options).fit(X, y)
    assert stopped.n_iter_ < free.n_iter_
    assert stopped.record_.message == "stopped early: the time budget is spent"


@pytest.mark.parametrize("value", [0, -1.0, "fast", True, float("nan"), float("inf")])
def test_budgets_that_are_none(value, waves):
    with pytest.raises(ValueError, match="time_budget must be a positive number of seconds or None"):
        gf.KernelRegressor(time_budget=value).fit(*waves)


def test_leaves_have_no_budget(waves):
    with pytest.raises(ValueError, match="does not go with partition"):
        gf.KernelRegressor(time_budget=1.0, partition=gf.Partition()).fit(*waves)
