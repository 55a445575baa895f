"""Rows with several labels: as many binary fits on one state, scores, files, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import gyrfalcon as gf

pytestmark = pytest.mark.usefixtures("one_thread")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(300, 3))
Y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 0.5, np.abs(X[:, 2]) > 1], 1)
Y = (Y ^ (RANDOM.random(Y.shape) < 0.05)).astype(int)
FIXED = {"length_scale": 1.5, "penalty": 1e-3, "tune": None, "verbose": False}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_centers", [40, 300])
def test_each_label_is_a_binary_fit(loss, n_centers):
    settings = FIXED | {"loss": loss, "n_centers": n_centers, "centers": X[:n_centers]}
    solver = gf.solvers.Newton(tolerance=1e-10) if loss == "logistic" else "direct"
    model = gf.KernelClassifier("gaussian", solver=solver, **settings).fit(X, Y)
    assert model.multilabel_
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.coefficients_.shape == (n_centers, 3)
    for label in range(3):
        alone = gf.KernelClassifier("gaussian", solver=solver, **settings).fit(X, Y[:, label])
        np.testing.assert_allclose(model.decision_function(X)[:, label], alone.decision_function(X), atol=1e-6)
        if loss == "logistic":
            np.testing.assert_allclose(model.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1], atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_predictions_scores_and_probabilities(loss):
    model = gf.KernelClassifier(loss=loss, random_state=0, verbose=False).fit(X[:200], Y[:200])
    predicted, chances = model.predict(X[200:]), model.predict_proba(X[200:])
    assert predicted.shape == chances.shape == (100, 3)
    assert predicted.dtype == Y.dtype
    np.testing.assert_array_equal(predicted, chances > 0.5)
    np.testing.assert_array_equal(predicted, model.decision_function(X[200:]) > 0)
    assert model.score(X[200:], Y[200:]) == (predicted == Y[200:]).all(1).mean() > 0.5
    for label in range(3):
        share = np.full((100, 1), Y[:200, label].mean())
        guess = log_loss(Y[200:, label], np.concatenate([1 - share, share], 1))
        assert log_loss(Y[200:, label], chances[:, label]) < 0.75 * guess
    assert (model.calibration_ is not None) == (loss == "squared")
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[200:])), chances)


def test_kinds_of_labels_files_and_tables(tmp_path):
    model = gf.KernelClassifier("gaussian", **FIXED).fit(X, Y)
    for other in (Y.tolist(), sparse.csr_array(Y), torch.from_numpy(Y), Y.astype(bool), Y.astype(float)):
        again = gf.KernelClassifier("gaussian", **FIXED).fit(X, other)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    names = ["rain", "snow", "wind"]
    frame = gf.KernelClassifier("gaussian", **FIXED).fit(pd.DataFrame(X), pd.DataFrame(Y, columns=names))
    assert frame.predict(pd.DataFrame(X)).columns.tolist() == names
    assert frame.predict_proba(pd.DataFrame(X)).columns.tolist() == names
    columns = [f"prediction_{name}" for name in names] + [f"probability_{name}" for name in names]
    assert list(frame.prediction_columns(pd.DataFrame(X), probabilities=True)) == columns
    frame.write_predictions(pd.DataFrame(X), tmp_path / "predictions.csv")
    assert pd.read_csv(tmp_path / "predictions.csv").columns.tolist() == columns[:3]
    model.save(tmp_path / "model.safetensors")
    loaded = gf.load(tmp_path / "model.safetensors")
    assert loaded.multilabel_
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_weights_early_stopping_and_cross_validation():
    twice = gf.KernelClassifier("gaussian", **FIXED).fit(X, Y, np.where(np.arange(300) < 100, 2.0, 1.0))
    doubled = np.concatenate([X, X[:100]]), np.concatenate([Y, Y[:100]])
    np.testing.assert_allclose(
        twice.decision_function(X),
        gf.KernelClassifier("gaussian", **FIXED).fit(*doubled).decision_function(X),
        atol=1e-6,
    )
    stopped = gf.KernelClassifier("gaussian", solver="falkon", early_stopping=True, n_centers=50, **FIXED).fit(X, Y)
    assert stopped.record_.validation_errors
    model = gf.KernelClassifier("gaussian", loss="logistic", **FIXED)
    assert model.fit(X, Y, X_val=X[:50], y_val=Y[:50]).record_.validation_errors
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.5


@pytest.mark.parametrize(
    ("settings", "labels", "words"),
    [
        ({"loss": "hinge"}, Y, "loss='hinge' does not go with several labels per row"),
        ({"loss": "softmax"}, Y, "take 'squared' or 'logistic'"),
        ({"loss": "exponential"}, Y, "loss='exponential' does not"),
        ({"coding": "simplex"}, Y, "coding='simplex' does not go with several labels"),
        ({"class_weight": "balanced"}, Y, "class_weight='balanced' does not go"),
        ({"updatable": True}, Y, "updatable=True does not go with several labels"),
        ({"loss": "log_loss"}, Y, "write loss='logistic'"),
        ({}, Y + 1, "y has 3 columns and must hold 1 where a row has a label"),
        ({}, Y.astype(str), "y has 3 columns"),
        ({}, Y[:100], "X has 300 rows but y has 100"),
    ],
)
def test_what_does_not_apply_is_refused(settings, labels, words):
    with pytest.raises(ValueError, match=words):
        gf.KernelClassifier(**settings).fit(X, labels)


def test_reports_and_warm_starts_need_the_same_kind_of_labels(tmp_path):
    model = gf.KernelClassifier("gaussian", warm_start=True, **FIXED).fit(X, Y)
    assert model.report(X, Y, tmp_path / "report.html").exists()
    with pytest.raises(ValueError, match="y_test must be zeros and ones of shape"):
        model.report(X, Y[:, 0], tmp_path / "report.html")
    with pytest.raises(ValueError, match="warm_start needs the classes of the last fit"):
        model.fit(X, Y.sum(1) % 3)
    assert model.fit(X, Y).multilabel_
