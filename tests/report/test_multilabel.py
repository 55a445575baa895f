"""The page about several labels per row."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = (X + 0.3 * RNG.normal(size=X.shape) > [0.0, 0.5, 1.0]).astype(int)
GIVEN = {"kernel": "gaussian", "length_scale": 2.0, "penalty": 1e-3, "verbose": False}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("pipeline", [False, True])
def test_each_label_has_its_numbers(tmp_path, loss, pipeline):
    model = gf.KernelClassifier(**GIVEN, loss=loss)
    model = make_pipeline(StandardScaler(), model) if pipeline else model
    model.fit(X[:100], Y[:100])
    page = gf.report.write_report(tmp_path / "r.html", model, X[100:], Y[100:]).read_text(encoding="utf-8")
    predicted, scores = model.predict(X[100:]), model.predict_proba(X[100:])
    right = (predicted == Y[100:]).all(1).mean()
    assert f"<b>{gf.report.text.share(right)}</b>" in page
    for label in range(3):
        precision = average_precision_score(Y[100:, label], scores[:, label])
        assert gf.report.text.number(precision, 3) in page
    assert all(name in page for name in ("Labels", "Time", "Reproduce"))
    assert "role=" not in page  # nothing is wrong with this model


def test_labels_have_the_names_of_the_fit(tmp_path):
    frame = pd.DataFrame(Y, columns=["cat", "dog", "bird"])
    model = gf.KernelClassifier(**GIVEN).fit(X[:100], frame[:100])
    page = gf.report.write_report(tmp_path / "r.html", model, X[100:], frame[100:]).read_text(encoding="utf-8")
    assert all(f">{name}<" in page for name in frame)


def test_a_model_that_learned_nothing_says_so(tmp_path):
    model = gf.KernelClassifier(**GIVEN).fit(X[:100], RNG.permutation(Y[:100]))
    wrong = gf.report.write_report(tmp_path / "r.html", model, X[100:], 1 - Y[100:]).read_text(encoding="utf-8")
    assert 'role="alert"' in wrong


def test_a_label_that_no_test_row_has_gets_a_dash(tmp_path):
    model = gf.KernelClassifier(**GIVEN).fit(X[:100], Y[:100])
    none = Y[100:].copy()
    none[:, 1] = 0
    page = gf.report.write_report(tmp_path / "r.html", model, X[100:], none).read_text(encoding="utf-8")
    assert "<td>–</td>" in page


def test_targets_of_another_shape_and_thresholds_are_refused(tmp_path):
    model = gf.KernelClassifier(**GIVEN).fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=r"y_test must be zeros and ones of shape \(60, 3\)"):
        gf.report.write_report(tmp_path / "r.html", model, X[100:], Y[100:, :2])
    with pytest.raises(ValueError, match="threshold is for two classes"):
        gf.report.write_report(tmp_path / "r.html", model, X[100:], Y[100:], threshold=0.3)
    assert not list(tmp_path.iterdir())
