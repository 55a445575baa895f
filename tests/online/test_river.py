"""Recursive models among river's: its own checks, and the same predictions as its Bayesian linear regression."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.online import RecursiveClassifier, RecursiveRegressor, to_river

river = pytest.importorskip("river")
MODELS = [
    RecursiveRegressor(),
    RecursiveRegressor(window=50),
    RecursiveClassifier(),
    RecursiveClassifier(recode="auto"),
]


def _checks():
    from river import checks

    for model in MODELS:
        adapter = to_river(model)
        for place, check in enumerate(checks.yield_checks(adapter)):
            if check.__name__ not in adapter._unit_test_skips():
                yield pytest.param(model, check, id=f"{model}-{check.__name__}-{place}")


@pytest.mark.parametrize(("model", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore")
def test_river(model, check):
    check(to_river(model))


def test_predictions_are_those_of_river():
    from river import linear_model

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=300)
    theirs = linear_model.BayesianLinearRegression(alpha=1, beta=1)
    ours = to_river(RecursiveRegressor(penalty=1.0, fit_intercept=False))
    for row, target in zip(X, y, strict=True):
        x = {f"x{j}": value for j, value in enumerate(row.tolist())}
        assert ours.predict_one(x) == pytest.approx(theirs.predict_one(x), abs=1e-9)
        ours.learn_one(x, target)
        theirs.learn_one(x, target)


def test_features_that_are_missing_are_zero_and_new_ones_are_refused():
    model = to_river(RecursiveRegressor())
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    model.learn_one({"b": 1.0}, 2.0)
    twin = RecursiveRegressor().fit([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
    assert model.predict_one({"a": 3.0}) == pytest.approx(twin.predict([[3.0, 0.0]])[0])
    with pytest.raises(ValueError, match="were not in the first row"):
        model.learn_one({"a": 1.0, "b": 2.0, "c": 3.0}, 1.0)
    with pytest.raises(TypeError, match="must be a RecursiveRegressor"):
        to_river(gf.KernelRegressor())


def test_a_model_goes_on_from_where_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    fitted = RecursiveRegressor().fit(X[:20], y[:20])
    adapter = to_river(fitted)
    for row, target in zip(X[20:], y[20:], strict=True):
        adapter.learn_one({"a": row[0], "b": row[1]}, target)
    assert fitted.n_seen_ == 20
    np.testing.assert_allclose(adapter.learner.coefficients_, RecursiveRegressor().fit(X, y).coefficients_, atol=1e-12)
