"""Names of other libraries get the right one, and tables are sent where they are taken."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.estimators.wrong_names import remedy

X = np.linspace(0, 6, 60)[:, None]
y = np.sin(X[:, 0])


@pytest.mark.parametrize("estimator", [gf.KernelRegressor, gf.KernelClassifier, gf.Falkon, gf.LogisticFalkon])
def test_parameters_of_other_libraries(estimator):
    for given, words in (
        ({"gamma": 0.5}, "has no parameter 'gamma': write length_scale=1 with the Gaussian kernel"),
        ({"gamma": "scale"}, "write length_scale=..., or kernel=gyrfalcon.kernels.from_name"),
        ({"alpha": 1.0}, "write penalty=alpha/n"),
        ({"C": 1.0}, r"write penalty=1/\(2·n·C\)"),
        ({"n_components": 10}, "write n_centers="),
        ({"lenght_scale": 1.0}, "write length_scale="),
        ({"zzz": 1.0}, "unexpected keyword argument 'zzz'"),
    ):
        with pytest.raises(TypeError, match=words):
            estimator(**given)
    with pytest.raises(ValueError, match=r"Invalid parameter 'alpha' for estimator .*: write penalty"):
        estimator().set_params(alpha=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'zzz'"):
        estimator().set_params(zzz=1.0)
    assert "gamma" not in inspect.signature(estimator).parameters
    assert next(iter(inspect.signature(estimator).parameters)) == "kernel"
    assert clone(pickle.loads(pickle.dumps(estimator(penalty=0.1)))).penalty == 0.1


def test_the_words_give_the_model_of_scikit_learn():
    alpha, gamma = 0.3, 0.7
    expected = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(X, y).predict(X)
    words = remedy("gamma", gamma, ["length_scale"])
    assert words == f"write length_scale={np.sqrt(0.5 / gamma):.6g} with the Gaussian kernel"
    settings = {"length_scale": float(np.sqrt(0.5 / gamma)), "penalty": alpha / len(X)}
    model = gf.KernelRegressor("gaussian", fit_intercept=False, tune=None, solver="exact", **settings).fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9, atol=1e-12)


def test_losses_of_other_libraries():
    for model, words in (
        (gf.KernelClassifier(loss="log_loss"), "got 'log_loss': write loss='logistic'"),
        (gf.KernelRegressor(loss="squared_error"), "write loss='squared'"),
        (gf.KernelRegressor(loss="huber"), "write loss='robust'"),
        (gf.KernelRegressor(loss="log_loss"), "'logistic', which is meant, is for classifiers"),
        (gf.KernelRegressor(loss="zzz"), "got 'zzz'$"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, y > 0)


def test_text_is_sent_to_the_model_of_tables():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0] * 4, "c": ["x", "y", "z"] * 4})
    for rows in (frame, pl.DataFrame(frame), frame.to_numpy()):
        with pytest.raises(ValueError, match=r"X holds text.* 'x', and KernelRegressor takes numbers") as raised:
            gf.KernelRegressor().fit(rows, np.arange(12.0))
        assert "gyrfalcon.TableModel().fit(table, target)" in str(raised.value)
        assert "HistGradientBoosting" not in str(raised.value)


def test_a_plain_function_is_told_of_each_iteration():
    seen = []
    model = gf.KernelRegressor(solver="falkon", n_centers=20, tune=None, random_state=0)
    model.fit(X, y, callback=lambda step: seen.append((step.iteration, step.objective)))
    assert [iteration for iteration, _ in seen] == list(range(1, model.n_iter_ + 1))
    model.fit(X, y, callback=lambda step: step.iteration == 2)
    assert model.n_iter_ == 2
    assert "a callback asked for it" in model.record_.message
    with pytest.raises(ValueError, match="callback: solver='exact' does not iterate"):
        gf.KernelRegressor(solver="exact", tune=None).fit(X, y, callback=print)


def test_predictions_keep_gradients_or_say_no():
    model = gf.KernelRegressor(tune=None).fit(X, y)
    rows = torch.from_numpy(X[:5]).requires_grad_()
    found = model.predict(rows)
    np.testing.assert_allclose(found.detach(), model.predict(X[:5]), rtol=1e-9)
    found.sum().backward()
    step = 1e-5
    slopes = (model.predict(X[:5] + step) - model.predict(X[:5] - step)) / (2 * step)
    np.testing.assert_allclose(rows.grad[:, 0], slopes, rtol=1e-5, atol=1e-7)
    with torch.no_grad():
        assert not model.predict(rows).requires_grad
    with pytest.raises(ValueError, match="only the mean keeps"):
        model.predict(rows, return_std=True)
    classifier = gf.KernelClassifier(tune=None).fit(X, y > 0)
    assert classifier.predict(rows).tolist() == classifier.predict(X[:5]).tolist()
    for ask in (classifier.predict_proba, classifier.decision_function):
        with pytest.raises(ValueError, match="KernelClassifier does not keep"):
            ask(rows)
    narrow = torch.from_numpy(X[:5].astype(np.float32)).requires_grad_()
    both = gf.KernelRegressor(tune=None).fit(X, np.stack([y, 2 * y], 1)).predict(narrow)
    assert both.shape == (5, 2)
    assert both.dtype == torch.float32
    assert both.requires_grad


def test_several_targets_with_classes_have_a_remedy():
    several = np.stack([np.sign(y), np.sign(y - 0.5)], 1)
    with pytest.raises(ValueError, match=r"y has 2 columns .* use sklearn.multioutput.MultiOutputClassifier"):
        gf.KernelClassifier().fit(X, several)
    model = MultiOutputClassifier(gf.KernelClassifier(tune=None)).fit(X, several)
    assert (model.predict(X) == several).mean() > 0.9


def test_pipelines_around_estimators_are_saved():
    model = make_pipeline(StandardScaler(), gf.KernelRegressor(tune=None)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
