"""KernelClassifier against dense minimizers, scikit-learn and its own probabilities."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

import gyrfalcon as gf
from gyrfalcon.losses import OneHot, Simplex
from reference.ridge import nystrom

random = np.random.default_rng(0)
X = random.normal(size=(240, 3))
TWO = np.array(["no", "yes"])[(X[:, 0] + 0.5 * random.normal(size=240) > 0).astype(int)]
FOUR = np.array([3, 1, 7, 5])[np.digitize(X[:, 0] + 0.3 * random.normal(size=240), [-0.8, 0, 0.8])]
C = X[::8]
NEW = random.normal(size=(50, 3))
KERNEL = gf.kernels.Gaussian(1.5)


@pytest.mark.parametrize("coding", ["one-hot", "simplex"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["direct", "falkon"])
def test_squared_loss_is_ridge_regression_on_codes(coding, weighted, intercept, solver):
    weights = np.random.default_rng(5).integers(0, 3, 240).astype(float) if weighted else None
    # The tolerance is one of the objective, which is a square.
    solver = gf.solvers.Falkon(tolerance=1e-14, max_iterations=300) if solver == "falkon" else solver
    model = gf.KernelClassifier(
        KERNEL, centers=C, penalty=1e-4, coding=coding, solver=solver, fit_intercept=intercept
    ).fit(X, FOUR, weights)
    classes, indices = np.unique(FOUR, return_inverse=True)
    codes = {"one-hot": OneHot, "simplex": Simplex}[coding](4)
    beta, offset = nystrom(KERNEL(X, C), KERNEL(C), codes.encode(indices), 1e-4, weights, intercept)
    outputs = KERNEL(NEW, C) @ beta + offset
    np.testing.assert_allclose(model.decision_function(NEW), outputs @ codes.codes.T, atol=1e-6)
    np.testing.assert_array_equal(model.predict(NEW), classes[codes.decode(outputs)])


@pytest.mark.parametrize("labels", [TWO, FOUR], ids=["two", "four"])
def test_logistic_loss_with_a_linear_kernel_is_logistic_regression(labels):
    penalty = 1e-2
    newton = gf.solvers.Newton(tolerance=1e-9)
    ours = gf.KernelClassifier(gf.kernels.Linear(), loss="logistic", penalty=penalty, solver=newton).fit(X, labels)
    theirs = LogisticRegression(C=1 / (2 * penalty * len(X)), tol=1e-10, max_iter=10_000).fit(X, labels)
    np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=2e-5)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "exponential"])
@pytest.mark.parametrize("coding", ["auto", "one-hot", "simplex"])
@pytest.mark.parametrize("labels", [TWO, FOUR], ids=["two", "four"])
def test_probabilities_decisions_and_predictions_agree(loss, coding, labels):
    if (loss, coding) == ("softmax", "simplex") or (loss == "exponential" and coding == "one-hot" and labels is FOUR):
        with pytest.raises(ValueError, match=f"coding='{coding}' does not go with loss='{loss}'"):
            gf.KernelClassifier(loss=loss, coding=coding, penalty=1e-3).fit(X, labels)
        return
    model = gf.KernelClassifier(loss=loss, coding=coding, penalty=1e-3).fit(X, labels)
    probabilities, decisions = model.predict_proba(NEW), model.decision_function(NEW)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)
    if len(model.classes_) == 2:
        assert decisions.shape == (50,)
        np.testing.assert_array_equal(model.predict(NEW), model.classes_[(decisions > 0).astype(int)])
        np.testing.assert_array_equal(probabilities[:, 1] > 0.5, decisions > 0)
    else:
        np.testing.assert_array_equal(model.predict(NEW), model.classes_[decisions.argmax(1)])
        chosen = probabilities[np.arange(50), decisions.argmax(1)]
        np.testing.assert_allclose(chosen, probabilities.max(1))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), probabilities)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_probabilities_are_calibrated(loss):
    """They are nearly as good as the true ones, and far better than decisions taken as certain."""
    points = np.random.default_rng(1).normal(size=(6000, 2))
    truth = 1 / (1 + np.exp(-3 * np.sin(2 * points[:, 0])))
    outcome = np.random.default_rng(2).uniform(size=6000) < truth
    model = gf.KernelClassifier(loss=loss, n_centers=200, penalty=1e-6, random_state=0).fit(
        points[:3000], outcome[:3000]
    )
    found = model.predict_proba(points[3000:])[:, 1]
    best = brier_score_loss(outcome[3000:], truth[3000:])
    assert brier_score_loss(outcome[3000:], found) < 1.03 * best
    assert brier_score_loss(outcome[3000:], found > 0.5) > 1.3 * best
    near = (found > 0.6) & (found < 0.8)
    assert abs(outcome[3000:][near].mean() - found[near].mean()) < 0.08


def test_calibrated_least_squares_are_as_good_as_the_multinomial_loss():
    points, digits = load_digits(return_X_y=True)
    split = train_test_split(points, digits, random_state=0)
    scores = {
        loss: log_loss(
            split[3], gf.KernelClassifier(loss=loss, penalty=1e-5).fit(split[0], split[2]).predict_proba(split[1])
        )
        for loss in ("squared", "logistic")
    }
    assert scores["squared"] < 1.05 * scores["logistic"]


def test_real_data():
    points, diagnosis = load_breast_cancer(return_X_y=True)
    for loss in ("squared", "logistic", "exponential"):
        scores = []
        for seed in range(5):
            split = train_test_split(points, diagnosis, random_state=seed, stratify=diagnosis)
            model = gf.KernelClassifier(loss=loss).fit(split[0], split[2])
            scores.append(model.score(split[1], split[3]))
        assert np.mean(scores) > 0.95


def test_class_weights_move_the_boundary():
    rare = np.where(X[:, 0] > 1.0, "rare", "common")
    spoiled = np.where(np.random.default_rng(3).uniform(size=240) < 0.2, "common", rare)
    plain = gf.KernelClassifier(loss="logistic", penalty=1e-3).fit(X, spoiled)
    balanced = gf.KernelClassifier(loss="logistic", penalty=1e-3, class_weight="balanced").fit(X, spoiled)
    by_hand = gf.KernelClassifier(loss="logistic", penalty=1e-3, class_weight={"rare": 5.0, "common": 1.0}).fit(
        X, spoiled
    )
    count = lambda model: int((model.predict(X) == "rare").sum())  # noqa: E731
    assert count(plain) < count(by_hand)
    assert count(plain) < count(balanced)


def test_labels_of_rows_without_weight_do_not_matter():
    weights = np.where(FOUR == 7, 0.0, 1.0)
    model = gf.KernelClassifier(loss="logistic", penalty=1e-3).fit(X, FOUR, weights)
    assert model.classes_.tolist() == [1, 3, 5]
    left = gf.KernelClassifier(loss="logistic", penalty=1e-3).fit(X[FOUR != 7], FOUR[FOUR != 7])
    np.testing.assert_allclose(model.predict_proba(NEW), left.predict_proba(NEW), atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "coding", "expected"),
    [
        ("squared", "one-hot", OneHot),
        ("logistic", "one-hot", OneHot),
        ("softmax", "one-hot", OneHot),
        ("squared", "simplex", Simplex),
        ("logistic", "simplex", Simplex),
        ("hinge", "simplex", Simplex),
        ("exponential", "simplex", Simplex),
    ],
)
def test_auto_is_the_coding_that_goes_with_the_loss(loss, coding, expected):
    """The coding asked for is the one taken; "auto" is one-hot wherever that goes with the loss, and simplex else."""
    settings = {"loss": loss, "penalty": 1e-3, "centers": C, "random_state": 0}
    asked = gf.KernelClassifier(KERNEL, coding=coding, **settings).fit(X, FOUR)
    assert isinstance(asked._targets.coding, expected)
    assert asked.coefficients_.shape == (len(C), 4 if expected is OneHot else 3)
    automatic = gf.KernelClassifier(KERNEL, **settings).fit(X, FOUR)
    own = Simplex if loss in ("hinge", "exponential") else OneHot
    assert isinstance(automatic._targets.coding, own)
    if own is expected:
        np.testing.assert_array_equal(automatic.coefficients_, asked.coefficients_)


@pytest.mark.parametrize("loss", ["hinge", "exponential"])
def test_margins_of_several_classes_refuse_one_hot_codes(loss):
    with pytest.raises(ValueError, match=f"coding='one-hot' does not go with loss='{loss}'"):
        gf.KernelClassifier(loss=loss, coding="one-hot", penalty=1e-3).fit(X, FOUR)
    settings = {"loss": loss, "penalty": 1e-3, "centers": C, "random_state": 0}
    two = [gf.KernelClassifier(KERNEL, coding=coding, **settings).fit(X, TWO) for coding in ("one-hot", "auto")]
    np.testing.assert_array_equal(*(model.decision_function(NEW) for model in two))


def test_warm_start_needs_the_same_classes_and_fewer_steps():
    model = gf.KernelClassifier(loss="logistic", warm_start=True, penalty=1e-5).fit(X, FOUR)
    first = model.n_iter_
    assert model.fit(X, FOUR).n_iter_ < first
    with pytest.raises(ValueError, match="classes"):
        model.fit(X, TWO)


def test_early_stopping_watches_the_loss():
    model = gf.KernelClassifier(
        gf.kernels.Gaussian(0.7),
        solver=gf.solvers.Falkon(tolerance=0.0),
        penalty=1e-9,
        early_stopping=True,
        random_state=0,
    ).fit(X, FOUR)
    errors = model.record_.validation_errors
    assert len(errors) == model.n_iter_
    assert "validation" in model.record_.message
    with pytest.raises(ValueError, match="y_val"):
        gf.KernelClassifier().fit(X, FOUR, X_val=X, y_val=FOUR + 1)
