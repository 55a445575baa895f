"""Estimators with a partition: the global model and its leaves as one, and options that do not go with them refused."""

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.estimators import streams
from gyrfalcon.partition import fit_partition
from reference.partition import exact_ridge

pytestmark = pytest.mark.usefixtures("one_thread")

random = np.random.default_rng(0)
X = random.uniform(-2, 2, (400, 2))
truth = np.sin(2 * X[:, 0]) * X[:, 1]
y = 20 + 5 * truth + random.normal(size=400)
labels = np.array(["low", "middle", "top"])[np.digitize(truth, [-0.5, 0.5])]
NEW = random.uniform(-2, 2, (60, 2))
KERNEL = gf.kernels.ProductLaplacian([1.5, 3.0])
SMALL = gf.Partition(leaf_rows=100, overlap=0.1, centers=40)


def regressor(**more):
    return gf.KernelRegressor(**{"kernel": KERNEL, "penalty": 0.1 / 400, "partition": SMALL, "random_state": 0} | more)


def classifier(**more):
    return gf.KernelClassifier(**{"kernel": KERNEL, "penalty": 0.1 / 400, "partition": SMALL, "random_state": 0} | more)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_leaf_of_all_rows_is_exact_kernel_ridge_regression(intercept):
    model = regressor(partition=gf.Partition(leaf_rows=400), fit_intercept=intercept).fit(X, y)
    alpha, offset = exact_ridge(KERNEL, X, y[:, None], 0.1, intercept=intercept)
    expected = (KERNEL(NEW, X) @ alpha + offset)[:, 0]
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-10)
    assert model.partition_ is None
    assert model.record_.solver == "exact"
    exact = regressor(partition=None, solver="exact", n_centers=400, fit_intercept=intercept).fit(X, y)
    np.testing.assert_array_equal(model.predict(NEW, return_std=True), exact.predict(NEW, return_std=True))


def test_rows_that_are_repeated_count_once_towards_a_leaf():
    model = regressor(partition=gf.Partition(50, centers=10)).fit(np.repeat(X[:40], 10, 0), np.repeat(y[:40], 10))
    assert model.partition_ is None
    assert len(model.centers_) == 40


def test_the_model_is_a_nystrom_model_and_leaves_on_what_it_leaves():
    model = regressor().fit(X, y)
    below = gf.KernelRegressor(KERNEL, penalty=0.1 / 400, centers=model.centers_, solver="direct").fit(X, y)
    np.testing.assert_allclose(model.coefficients_, below.coefficients_, rtol=1e-6, atol=1e-8)
    assert model.centers_.shape == (40, 2)
    leaves = fit_partition(KERNEL, X, y[:, None], 0.1, SMALL, base=lambda points: below.predict(points)[:, None])
    np.testing.assert_allclose(model.predict(NEW), leaves.predict(NEW)[:, 0], rtol=1e-8)
    assert model.partition_.n_leaves == leaves.n_leaves > 4
    np.testing.assert_allclose(model.partition_.noise_variance, leaves.noise_variance, rtol=1e-8)
    assert f"{leaves.n_leaves} leaves are solved exactly" in model.record_.reason
    assert model.record_.seconds["leaves"] > 0
    _, deviation = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(deviation, np.sqrt(leaves.variance(NEW) + leaves.noise_variance)[:, 0], rtol=1e-7)


def test_leaves_find_what_few_centers_cannot():
    def error(model):
        return np.sqrt(np.mean((model.fit(X, y).predict(NEW) - 20 - 5 * np.sin(2 * NEW[:, 0]) * NEW[:, 1]) ** 2))

    leaves, few, all_rows = (
        error(model)
        for model in (
            regressor(partition=gf.Partition(100, 0.1, 10)),
            regressor(partition=None, n_centers=10),
            regressor(partition=None, n_centers=400),
        )
    )
    assert leaves < 0.6 * few
    assert leaves < 1.15 * all_rows


@pytest.mark.parametrize("kind", ["float64", "float32", "tensor", "sparse"])
@pytest.mark.parametrize("make", [regressor, classifier])
def test_files_keep_every_bit(make, kind, tmp_path):
    convert = {
        "float64": lambda X: X,
        "float32": lambda X: X.astype(np.float32),
        "tensor": torch.from_numpy,
        "sparse": sparse.csr_array,
    }[kind]
    kernel = {"kernel": gf.kernels.Gaussian(1.0)} if kind == "sparse" else {}
    model = make(**kernel).fit(convert(X), y if make is regressor else labels)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = gf.load(path)
    assert again.partition == SMALL
    new = convert(NEW)
    for method in ("predict",) if make is regressor else ("predict", "predict_proba", "decision_function"):
        expected = np.asarray(getattr(model, method)(new))
        np.testing.assert_array_equal(np.asarray(getattr(again, method)(new)), expected)
    if make is regressor:
        np.testing.assert_array_equal(again.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1])


def test_a_file_with_other_leaves_is_refused(tmp_path):
    model = regressor().fit(X, y)
    model.partition_.offsets[1] = 0
    model.save(tmp_path / "model")
    with pytest.raises(gf.persistence.ModelFileError, match="leaves of the partition"):
        gf.load(tmp_path / "model")


def test_weights_count_like_repetitions():
    counts = random.integers(1, 4, 400)
    same = {"penalty": 0.1 / counts.sum(), "centers": lambda *args, **kwargs: X[:40]}
    one = regressor(**same).fit(X, y, sample_weight=counts * 1.0)
    two = regressor(**same).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), rtol=1e-6)
    np.testing.assert_allclose(one.predict(NEW, return_std=True)[1], two.predict(NEW, return_std=True)[1], rtol=1e-6)
    balanced = classifier(class_weight="balanced").fit(X, labels)
    assert balanced.score(X, labels) > 0.9


def test_units_of_the_targets_do_not_matter():
    one, other = regressor().fit(X, y), regressor().fit(X, 1e-6 * y - 1)
    np.testing.assert_allclose(1e-6 * one.predict(NEW) - 1, other.predict(NEW), rtol=1e-9)
    deviations = [model.predict(NEW, return_std=True)[1] for model in (one, other)]
    np.testing.assert_allclose(1e-6 * deviations[0], deviations[1], rtol=1e-6)


def test_several_outputs_are_fitted_at_once():
    both = regressor().fit(X, np.stack([y, -2 * y], 1))
    one = regressor().fit(X, y)
    np.testing.assert_allclose(both.predict(NEW), np.stack([one.predict(NEW), -2 * one.predict(NEW)], 1), rtol=1e-8)
    assert both.predict(NEW, return_std=True)[1].shape == (60, 2)


def test_tuning_and_validation_go_with_it():
    model = gf.KernelRegressor(partition=SMALL, random_state=0).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert model.tuning_ is not None
    error = np.sqrt(np.mean((model.predict(X[300:]) - y[300:]) ** 2))
    assert model.record_.validation_errors[-1] == pytest.approx(error, rel=1e-9)


def test_a_warm_start_keeps_kernel_and_centers():
    model = regressor(warm_start=True).fit(X, y)
    centers = model.centers_
    model.fit(X[:300], y[:300])
    assert model.centers_ is centers or np.array_equal(model.centers_, centers)
    fresh = regressor(centers=lambda *args, **kwargs: centers, penalty=model.penalty_).fit(X[:300], y[:300])
    np.testing.assert_allclose(model.predict(NEW), fresh.predict(NEW), rtol=1e-6)


def test_rows_of_a_file_are_read_once_and_kept(monkeypatch, tmp_path):
    np.save(tmp_path / "X.npy", X)
    expected = regressor().fit(X, y).predict(NEW)
    monkeypatch.setattr(streams, "IN_MEMORY", 0)
    source = gf.data.open(tmp_path / "X.npy", dtype=np.float64).X
    model = regressor().fit(source, y)
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(source), model.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match=r"the model keeps every row.*raise memory_budget, or leave partition out"):
        regressor(memory_budget=10_000).fit(source, y)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"partition": "leaves"}, "partition must be 'auto', None or a gyrfalcon.Partition"),
        ({"partition": {"leaf_rows": 5}}, "partition must be 'auto', None or a gyrfalcon.Partition"),
        ({"loss": "robust"}, "loss='robust' does not go with partition"),
        ({"loss": gf.losses.Quantile(0.5)}, "does not go with partition"),
        ({"solver": "falkon"}, "solver='falkon' does not go with partition"),
        ({"solver": gf.solvers.Exact()}, "does not go with partition"),
        ({"n_centers": 30}, "n_centers=30 does not go with partition"),
        ({"centers": X[:30]}, "does not go with partition"),
        ({"early_stopping": True}, "early_stopping=True does not go with partition"),
        ({"device": ["cpu", "cpu"]}, "does not go with partition"),
    ],
)
def test_what_does_not_go_with_a_partition_is_refused(options, name):
    with pytest.raises(ValueError, match=name):
        regressor(**options).fit(X, y)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "exponential", "hinge"])
def test_classifiers_take_it_for_the_squared_loss_only(loss):
    with pytest.raises(ValueError, match=f"loss='{loss}' does not go with partition"):
        classifier(loss=loss).fit(X, labels)
    assert classifier().fit(X, labels).score(X, labels) > 0.9


def test_batches_are_refused():
    with pytest.raises(ValueError, match=r"partition=.*fit_stream"):
        regressor().fit_stream([(X, y)])


def test_no_deviation_without_uncertainty():
    with pytest.raises(ValueError, match="return_std needs"):
        regressor(uncertainty=False).fit(X, y).predict(NEW, return_std=True)


def test_the_report_speaks_of_the_leaves(tmp_path):
    model = regressor().fit(X[:300], y[:300])
    text = model.report(X[300:], y[300:], tmp_path / "report.html").read_text()
    assert f"{model.partition_.n_leaves} of at most 100 rows" in text


def test_a_fit_with_a_checkpoint_is_the_same(tmp_path):
    plain = regressor().fit(X, y)
    kept = regressor(checkpoint=tmp_path / "fit").fit(X, y)
    np.testing.assert_array_equal(plain.predict(NEW), kept.predict(NEW))


def test_rounding_of_large_coefficients_does_not_come_between_leaves_and_the_global_model():
    """Leaves are fitted to what the global model leaves as it is evaluated later: in float64, where float32 shows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    options = {
        "kernel": gf.kernels.Matern(100.0, nu=1.5),
        "penalty": 1e-10,
        "tune": None,
        "partition": gf.Partition(leaf_rows=500, centers=200),
        "random_state": 0,
    }
    narrow, wide = (gf.KernelRegressor(**options).fit(rows, y) for rows in (X, X.astype(np.float64)))
    errors = [np.mean((model.predict(X.astype(model.centers_.dtype)) - y) ** 2) for model in (narrow, wide)]
    assert errors[1] < 1e-5 * y.var()
    assert errors[0] < 2 * errors[1]


def test_errors_on_validation_rows_are_those_of_predictions_in_float32_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1800, 5)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    model = gf.KernelRegressor(
        gf.kernels.Matern(100.0, nu=1.5),
        penalty=1e-10,
        tune=None,
        partition=gf.Partition(leaf_rows=500, centers=200),
        random_state=0,
    ).fit(X[:1500], y[:1500], X_val=X[1500:], y_val=y[1500:])
    expected = np.sqrt(np.mean((model.predict(X[1500:]).astype(np.float64) - y[1500:]) ** 2))
    assert model.record_.validation_errors[-1] == pytest.approx(expected, rel=1e-3)
