"""The border between classes: where left-out rows ask for it, and nowhere else."""

import numpy as np
import pytest
from scipy.optimize import minimize

import gyrfalcon as gf
from gyrfalcon.estimators import balance as module
from gyrfalcon.estimators.balance import balance
from gyrfalcon.estimators.calibration import Judged


def drawn(k, rows, moved, seed=0):
    """Shares and labels whose logits are 6 · share + moved."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(k), rows)
    logits = 6 * shares + np.asarray(moved)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(k, p=p) for p in chances])
    return Judged(shares, labels, rng.uniform(1.0, 2.0, rows))


def rare(rows):
    """Two classes, one of them rare, and more features than matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8))
    return X, (np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=rows) > 2.2).astype(int)


@pytest.mark.parametrize("moved", [(-0.8, 0.8), (-1.0, 0.3, 0.7)])
def test_offsets_are_the_most_likely_ones(moved):
    found = drawn(len(moved), 800, moved)
    shares, labels, weights = found

    def loss(numbers):
        logits = numbers[0] * shares + numbers[1:]
        own = logits[np.arange(len(labels)), labels]
        return weights @ (np.log(np.exp(logits).sum(1)) - own) + (numbers[1:] ** 2).sum() / 2

    best = minimize(loss, np.array([5.0, *np.zeros(len(moved))]), tol=1e-10).x
    offsets, stage = balance(found, 0.1)
    assert stage.chosen == 1
    assert stage.candidates[1].value < stage.candidates[0].value
    expected = best[1:] / best[0]
    np.testing.assert_allclose(offsets, expected - expected.mean(), atol=1e-3)


def test_the_border_stays_where_nothing_is_to_be_gained():
    offsets, stage = balance(drawn(3, 500, (0.0, 0.0, 0.0)), 0.1)
    assert stage.chosen == 0
    np.testing.assert_array_equal(offsets, 0)


def test_a_rare_class_is_predicted_more_often_and_everything_agrees(tmp_path):
    X, y = rare(1000)
    model = gf.KernelClassifier(random_state=0).fit(X, y)
    stage = model.tuning_.stages[-1]
    assert (stage.name, stage.chosen) == ("border between classes", 1)
    scores, predicted = model.decision_function(X), model.predict(X)
    np.testing.assert_array_equal(predicted, scores > 0)
    np.testing.assert_array_equal(predicted, model.predict_proba(X).argmax(1))
    same = {"penalty": model.penalty_, "tune": None, "random_state": 0}
    plain = gf.KernelClassifier(model.kernel_, **same).fit(X, y)
    np.testing.assert_allclose(model.coefficients_, plain.coefficients_, rtol=1e-6, atol=1e-9)
    assert model.intercept_[0] > plain.intercept_[0]
    model.save(tmp_path / "model.gyr")
    np.testing.assert_array_equal(gf.load(tmp_path / "model.gyr").predict(X), predicted)


@pytest.mark.parametrize("fixed", [{"penalty": 1e-3}, {"fit_intercept": False}, {"tune": None}])
def test_a_fit_that_is_spelled_out_stays_the_minimum(fixed):
    X, y = rare(300)
    model = gf.KernelClassifier(random_state=0, **fixed).fit(X, y)
    stages = [] if model.tuning_ is None else [stage.name for stage in model.tuning_.stages]
    assert "border between classes" not in stages


def test_the_border_of_several_classes_moves_by_class(monkeypatch):
    monkeypatch.setattr(module, "WORTH", -np.inf)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0] + 0.8 * rng.normal(size=400), [1.2, 2.2])
    model = gf.KernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(1))
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(1))
    assert model.tuning_.stages[-1].chosen == 1
