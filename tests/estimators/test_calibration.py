"""Probabilities of the squared loss: leave-one-out scores against refits, and the map against a plain search."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import log_loss

import gyrfalcon as gf
from gyrfalcon.estimators import calibration as module
from gyrfalcon.estimators.calibration import Calibration, judged_rows
from gyrfalcon.estimators.choices import SMALL
from gyrfalcon.estimators.targets import ClassTargets
from gyrfalcon.losses import OneHot, Simplex, Squared
from reference.calibration import leave_one_out, slopes

random = np.random.default_rng(0)
X = random.normal(size=(60, 2))
THREE = (X[:, 0] + 0.5 * random.normal(size=60) > 0).astype(int) + (X[:, 1] > 0.8)
KERNEL = gf.kernels.Gaussian(1.0)


def dense(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(2) / 2)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("centers", [None, 12])
@pytest.mark.parametrize("coding", [OneHot(3), Simplex(3)], ids=["one-hot", "simplex"])
def test_scores_are_those_of_fits_without_the_row(coding, centers, weighted, intercept):
    targets = ClassTargets(Squared(), np.arange(3), coding)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], 60) if weighted else None
    C = X[:centers]
    shares, labels, w = judged_rows(
        X, THREE, weights, targets, kernel=KERNEL, centers=C, noise=0.3, intercept=intercept
    )
    expected = leave_one_out(dense(X, C), dense(C, C), coding.encode(THREE), w, 0.3, intercept=intercept)
    np.testing.assert_array_equal(labels, THREE)
    np.testing.assert_allclose(shares, targets.shares(expected), atol=1e-7)


@pytest.mark.parametrize("classes", [2, 4])
def test_slopes_are_the_most_likely_ones(classes):
    source = np.random.default_rng(2)
    truth = source.dirichlet(np.full(classes, 0.7), 150)
    labels = np.array([source.choice(classes, p=p) for p in truth])
    shares = 0.6 * truth + 0.4 / classes + 0.05 * source.normal(size=truth.shape)
    weights = source.uniform(0.5, 3, 150)
    found = Calibration.of(shares, labels, weights)
    best = slopes(shares, labels, weights, module.FLOOR, module.PRIOR, (module.LEAST_SLOPE, 0.0))
    np.testing.assert_allclose([found.slope, found.log_slope], best, atol=2e-3)


@pytest.mark.parametrize("count", [300, 6000])
def test_weights_are_repetitions(count):
    """A row of weight two is two rows, also where only some of the rows are looked at."""
    source = np.random.default_rng(3)
    points = source.normal(size=(count, 2))
    labels = (points[:, 0] + source.normal(size=count) > 0).astype(int)
    weights = source.integers(1, 3, count).astype(float)
    model = gf.KernelClassifier(KERNEL, penalty=1e-3, centers=points[:100])
    weighted = model.fit(points, labels, weights).calibration_
    rows = np.repeat(np.arange(count), weights.astype(int))
    repeated = model.fit(points[rows], labels[rows]).calibration_
    tolerance = 1e-4 if count <= SMALL else 0.5  # other rows are drawn
    assert weighted.slope == pytest.approx(repeated.slope, abs=tolerance)
    assert weighted.log_slope == pytest.approx(repeated.log_slope, abs=tolerance)


def test_order_of_few_rows_does_not_matter():
    order = np.random.default_rng(4).permutation(60)
    first = gf.KernelClassifier(KERNEL, penalty=1e-3).fit(X, THREE).calibration_
    second = gf.KernelClassifier(KERNEL, penalty=1e-3).fit(X[order], THREE[order]).calibration_
    assert first.slope == pytest.approx(second.slope, abs=1e-6)
    assert first.log_slope == pytest.approx(second.log_slope, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_the_largest_score_is_the_largest_probability(classes, rows, seed):
    source = np.random.default_rng(seed)
    shares = source.normal(size=(rows, classes))
    shares += (1 - shares.sum(1, keepdims=True)) / classes
    found = Calibration.of(shares, source.integers(classes, size=rows), np.ones(rows))
    chances = found.probabilities(shares)
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_array_equal(chances.argmax(1), shares.argmax(1))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("centers", [40, "auto"])
def test_probabilities_are_better_than_the_nearest_ones(classes, centers):
    """And nearly as good as those of a map that was fitted to the test rows."""
    source = np.random.default_rng(5)
    points = source.normal(size=(1200, 6))
    logits = 4 * np.column_stack([np.sin(points[:, 0]), points[:, 1] * points[:, 2], points[:, 3]])[:, :classes]
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([source.choice(classes, p=p) for p in truth])
    model = gf.KernelClassifier(gf.kernels.Gaussian(2.5), penalty=1e-4, n_centers=centers, random_state=0)
    model.fit(points[:600], labels[:600])
    calibrated = log_loss(labels[600:], model.predict_proba(points[600:]))
    shares = model._targets.shares(model._outputs(points[600:]))
    hindsight = Calibration.of(shares, labels[600:], np.ones(600)).probabilities(shares)
    assert calibrated < 1.05 * log_loss(labels[600:], hindsight)
    model.calibration_ = None
    plain = np.maximum(model.predict_proba(points[600:]), 1e-3)
    assert calibrated < log_loss(labels[600:], plain / plain.sum(1, keepdims=True))


def test_partition_calibrates_by_all_rows():
    model = gf.KernelClassifier(KERNEL, penalty=1e-3, partition=gf.Partition(leaf_rows=30, centers=5)).fit(X, THREE)
    exact = gf.KernelClassifier(KERNEL, penalty=1e-3).fit(X, THREE)
    assert model.partition_ is not None
    assert model.calibration_.slope == pytest.approx(exact.calibration_.slope, abs=1e-6)


@pytest.mark.parametrize("kind", [sparse.csr_array, lambda points: points.astype(np.float32)])
def test_kinds_of_points(kind):
    model = gf.KernelClassifier(KERNEL, penalty=1e-3)
    expected = model.fit(X, THREE).predict_proba(X)
    np.testing.assert_allclose(model.fit(kind(X), THREE).predict_proba(kind(X)), expected, atol=1e-3)


@pytest.mark.parametrize(
    "points",
    [[[0.0], [1.0]], [[0.0], [0.0], [0.0]], [[0.0]] * 500 + [[1.0]] * 500, np.arange(6.0)[:, None] * 1e6],
    ids=["two rows", "one point", "two points", "far apart"],
)
def test_few_points(points):
    """No warning, no NaN; where rows repeat, the repetitions are what new rows are expected to be."""
    points = np.array(points)
    labels = (np.arange(len(points)) >= len(points) / 2).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = gf.KernelClassifier(KERNEL, penalty=1e-3).fit(points, labels)
        chances = model.predict_proba(points)
    assert np.isfinite(chances).all()
    if len(points) == 1000:
        assert (chances[np.arange(1000), labels] > 0.95).all()


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "logistic"},
        {"updatable": True},
        {"solver": "nytro"},
        {"penalty": 0.0},
    ],
    ids=str,
)
def test_where_there_is_no_calibration(options):
    model = gf.KernelClassifier(**({"kernel": KERNEL, "penalty": 1e-3, "random_state": 0} | options)).fit(X, THREE)
    assert model.calibration_ is None
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_model_files(tmp_path):
    model = gf.KernelClassifier(KERNEL, penalty=1e-3).fit(X, THREE)
    model.save(tmp_path / "new.gyr")
    again = gf.load(tmp_path / "new.gyr")
    assert again.calibration_ == model.calibration_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    calibrated, model.calibration_ = model.predict_proba(X), None  # what files of earlier versions hold
    model.save(tmp_path / "old.gyr")
    old = gf.load(tmp_path / "old.gyr")
    assert old.calibration_ is None
    assert np.abs(old.predict_proba(X) - calibrated).max() > 0.01


@pytest.mark.parametrize("slope", [-1.0, float("nan"), float("inf")])
def test_bad_slopes_are_refused(slope):
    with pytest.raises(ValueError, match="finite and not negative"):
        Calibration(1.0, slope)
