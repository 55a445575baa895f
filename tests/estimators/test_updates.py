"""`partial_fit`, `add_classes` and `add_centers` against fits to all rows with the same centers, and dense formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gyrfalcon as gf
from reference import kernels as oracle

pytestmark = pytest.mark.usefixtures("one_thread")

random = np.random.default_rng(0)
X = random.uniform(-3, 3, (400, 2))
y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + 0.1 * random.normal(size=400) + 7.0
labels = np.array(["a", "b", "c", "d"])[np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] / 2, [-1.0, 0.0, 1.0])]
weights = random.integers(0, 4, size=400).astype(float)
C = X[:40]
KERNEL = gf.kernels.Gaussian(1.0)
GIVEN = {"kernel": KERNEL, "centers": C, "penalty": 1e-4, "tune": None, "random_state": 0}


def regressor(**more):
    return gf.KernelRegressor(**{**GIVEN, "updatable": True, **more})


def classifier(**more):
    return gf.KernelClassifier(**{**GIVEN, "updatable": True, **more})


def learned(model, ends, targets, sample_weight=None):
    for start, stop in zip([0, *ends], [*ends, len(X)], strict=True):
        own = None if sample_weight is None else sample_weight[start:stop]
        model.partial_fit(X[start:stop], targets[start:stop], sample_weight=own)
    return model


def ridge(Y, penalty, w=None, C=C):
    """Centered weighted least squares on whitened features, solved as a stacked least squares problem."""
    w = np.ones(len(X)) if w is None else w
    T = np.linalg.cholesky(oracle.dense(KERNEL, C, C) + 1e-13 * np.eye(len(C))).T
    Z = np.linalg.solve(T.T, oracle.dense(KERNEL, X, C).T).T
    Zc, Yc = Z - np.average(Z, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
    root = np.sqrt(w / w.sum())[:, None]
    A = np.vstack([root * Zc, np.sqrt(penalty) * np.eye(len(C))])
    v = np.linalg.lstsq(A, np.vstack([root * Yc, np.zeros((len(C), Y.shape[1]))]), rcond=None)[0]
    return Zc @ v + np.average(Y, axis=0, weights=w)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_solution_for_all_rows(weighted):
    w = weights if weighted else None
    found = learned(regressor(), [130, 131, 200], y, w).predict(X)
    np.testing.assert_allclose(found, ridge(y[:, None], 1e-4, w)[:, 0], rtol=1e-8)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(60, 399), max_size=5, unique=True), seed=st.integers(0, 3), intercept=st.booleans())
def test_equals_a_fit_to_all_rows_however_they_are_cut(cuts, seed, intercept):
    order = np.random.default_rng(seed).permutation(len(X))
    whole = regressor(fit_intercept=intercept).fit(X, y)
    model = regressor(fit_intercept=intercept)
    for part in np.split(order, sorted(cuts)):
        model.partial_fit(X[part], y[part])
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-10)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, rtol=0, atol=1e-7)  # k(C, C) has condition 1e9
    deviation = model.predict(X[:20], return_std=True)[1]
    np.testing.assert_allclose(deviation, whole.predict(X[:20], return_std=True)[1], rtol=1e-8)
    assert model.moments_.count == len(X)


def test_several_outputs_and_repeated_first_rows():
    Y = np.stack([y, y**2], 1)
    first = np.repeat(np.arange(50), 2)
    rows = np.concatenate([first, np.arange(100, 400)])
    model = gf.KernelRegressor(KERNEL, penalty=1e-4, tune=None, updatable=True)
    model.partial_fit(X[first], Y[first]).partial_fit(X[100:], Y[100:])
    assert len(model.centers_) == 50  # the distinct ones among the first
    whole = regressor(centers=model.centers_).fit(X[rows], Y[rows])
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-10)
    np.testing.assert_allclose(model.record_.objective, _objective_in(model, whole), rtol=1e-8)


def _objective_in(model, whole):
    """What `whole` has minimized, in the units of the first rows' targets."""
    return np.array(whole.record_.objective) * np.square(whole._targets.scale / model._targets.scale)


def test_repeated_rows_keep_their_scatter():
    first = np.repeat(np.arange(50), 3)
    noisy = y[first] + random.normal(size=150)
    model = gf.KernelRegressor(KERNEL, penalty=1e-4, tune=None, updatable=True).partial_fit(X[first], noisy)
    model.partial_fit(X[100:], y[100:])
    all_X, all_y = np.concatenate([X[first], X[100:]]), np.concatenate([noisy, y[100:]])
    whole = regressor(centers=model.centers_).fit(all_X, all_y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-10)
    np.testing.assert_allclose(
        model.predict(X[:9], return_std=True)[1], whole.predict(X[:9], return_std=True)[1], rtol=1e-8
    )


def test_a_penalty_that_was_given_stays_and_an_automatic_one_stays_as_noise():
    given_ = learned(regressor(), [100], y)
    assert given_.penalty_ == 1e-4
    auto = regressor(penalty="auto").partial_fit(X[:100], y[:100], weights[:100])
    noise = auto.penalty_ * weights[:100].sum()
    auto.partial_fit(X[100:], y[100:], weights[100:])
    assert auto.penalty_ * weights.sum() == pytest.approx(noise, rel=1e-12)
    whole = regressor(penalty="auto").fit(X, y, weights)
    np.testing.assert_allclose(auto.predict(X), whole.predict(X), rtol=1e-10)


@pytest.mark.parametrize("coding", ["one-hot", "simplex"])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_that_come_later_are_as_if_they_had_always_been_there(coding, weighted):
    w = weights if weighted else None
    order = np.argsort(labels, kind="stable")  # one class after the other: two of them in the first batch
    first = int((labels <= "b").sum())
    model = classifier(coding=coding)
    for part in np.split(order, [first, first + 60, 350]):
        model.partial_fit(X[part], labels[part], sample_weight=None if w is None else w[part])
    whole = classifier(coding=coding).fit(X, labels, w)
    assert model.classes_.tolist() == list("abcd")
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-10)
    totals = [(1.0 if w is None else w)[labels == label].sum() if w is not None else (labels == label).sum()
              for label in "abcd"]  # fmt: skip
    np.testing.assert_allclose(model.moments_.sums.targets, totals, atol=1e-9)


def test_one_class_first_if_the_others_are_named():
    order = np.argsort(labels, kind="stable")
    model = classifier().partial_fit(X[order[:50]], labels[order[:50]], classes=["a", "c"])
    assert model.classes_.tolist() == ["a", "c"]
    assert (model.predict(X) == "a").all()
    model.partial_fit(X[order[50:]], labels[order[50:]])
    whole = classifier().fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-10)
    with pytest.raises(ValueError, match="a classifier needs two, so name those that will come"):
        classifier().partial_fit(X[order[:50]], labels[order[:50]])


def test_weights_of_classes_apply_to_later_rows():
    by_class = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 0.5}
    model = learned(classifier(class_weight=by_class), [200], labels)
    whole = classifier(class_weight=by_class).fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-10)


def test_added_classes_are_not_predicted_before_they_have_rows():
    model = classifier().fit(X[:300], labels[:300])
    before = model.predict(X)
    model.add_classes(["z", "a"])
    assert model.classes_.tolist() == list("abcdz")
    assert (model.predict(X) == before).all()
    with pytest.raises(ValueError, match="all numbers or all text"):
        model.add_classes([3])
    with pytest.raises(ValueError, match="all numbers or all text"):
        model.partial_fit(X[300:], np.arange(100) % 5)
    assert model.classes_.tolist() == list("abcdz")


@pytest.mark.parametrize("kind", [torch.from_numpy, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_other_kinds_of_points(kind):
    model = regressor(centers=kind(C)).partial_fit(kind(X[:200]), y[:200]).partial_fit(kind(X[200:]), y[200:])
    expected = regressor().fit(X, y).predict(X)
    np.testing.assert_allclose(np.asarray(model.predict(kind(X))), expected, rtol=2e-4)


@pytest.mark.parametrize("gathered", [True, False])
def test_files(tmp_path, monkeypatch, gathered):
    if not gathered:
        monkeypatch.setattr("gyrfalcon.estimators.streams.IN_MEMORY", 0)
    names = {"first": slice(0, 200), "more": slice(200, 400)}
    for name, rows in names.items():
        table = np.column_stack([X[rows], y[rows]])
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="u,v,t", comments="", fmt="%.17g")
    model = regressor(centers=C.astype(np.float32))
    for name in names:
        model.partial_fit(tmp_path / f"{name}.csv", target="t")
    found = np.concatenate([model.predict(tmp_path / f"{name}.csv") for name in names])
    assert model.moments_.count == 400
    np.testing.assert_allclose(found, regressor().fit(X, y).predict(X), rtol=2e-4)  # files are read as float32


def test_a_loaded_model_goes_on_with_the_same_bits(tmp_path):
    for make, targets in ((regressor, y), (classifier, labels)):
        model = make(centers="uniform", n_centers=30).partial_fit(X[:200], targets[:200])
        model.save(tmp_path / "model.safetensors")
        again = gf.load(tmp_path / "model.safetensors")
        for one in (model, again):
            one.partial_fit(X[200:], targets[200:])
        assert (again.coefficients_ == model.coefficients_).all()
        assert (np.asarray(again.predict(X)) == np.asarray(model.predict(X))).all()
    assert gf.load(tmp_path / "model.safetensors").classes_.tolist() == list("abcd")


def test_refused_rows_leave_the_model_as_it_was():
    model = classifier().partial_fit(X[:200], labels[:200])
    before, state = model.coefficients_.tobytes(), model.moments_.second.tobytes()
    broken = X[200:].copy()
    broken[3, 1] = np.nan
    for rows, targets, words in (
        (broken, labels[200:], "NaN"),
        (X[200:, :1], labels[200:], "1 features"),
        (X[200:], labels[199:], "one label per row"),
        (X[200:], random.normal(size=200), "continuous"),
        (np.array([["u", "v"]]), ["e"], "could not convert"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(rows, targets)
        assert model.coefficients_.tobytes() == before
        assert model.moments_.second.tobytes() == state
        assert model.classes_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="1 targets a row"):
        regressor().fit(X, y).partial_fit(X, np.stack([y, y], 1))


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (regressor, {"loss": "robust"}, "updatable=True needs the squared loss"),
        (classifier, {"loss": "logistic"}, "updatable=True needs the squared loss"),
        (regressor, {"solver": "falkon"}, "factorization of the moments, got solver='falkon'"),
        (regressor, {"solver": gf.solvers.Falkon()}, "factorization of the moments"),
        (regressor, {"early_stopping": True}, "does not iterate"),
        (classifier, {"class_weight": "balanced"}, "changes with every row"),
        (regressor, {"updatable": "yes"}, "updatable must be True or False"),
    ],
)
def test_what_does_not_go_with_updates_is_refused(make, options, words):
    with pytest.raises(ValueError, match=words):
        make(**options).fit(X, y if make is regressor else labels)


def test_models_that_keep_no_moments_say_so():
    model = gf.KernelRegressor(**GIVEN).fit(X, y)
    assert not hasattr(model, "moments_")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y)
    assert "updatable=True" in str(error.value.__cause__)


# Centers that come later.


def test_added_centers_change_nothing_before_rows_come():
    model = regressor().fit(X, y)
    before = model.predict(X)
    model.add_centers(X[100:120] + 0.05)
    assert model.centers_.shape == (60, 2)
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-13)


def test_added_centers_far_from_the_rows_so_far_are_exact():
    far, target = X + 50.0, np.cos(X[:, 0])
    model = regressor().fit(X, y).add_centers(far[:40]).partial_fit(far, target)
    whole = regressor(centers=np.vstack([C, far[:40]])).fit(np.vstack([X, far]), np.concatenate([y, target]))
    for rows in (X, far):
        np.testing.assert_allclose(model.predict(rows), whole.predict(rows), rtol=1e-8, atol=1e-8)


def test_rows_before_are_known_through_the_centers_of_their_time():
    new, later = np.array([[0.3, 0.4], [2.0, -2.5], [-2.8, 1.0]]), slice(200, 400)
    model = regressor().fit(X[:200], y[:200]).add_centers(new).partial_fit(X[later], y[later])
    all_centers = np.vstack([C, new])
    gram = oracle.dense(KERNEL, all_centers, all_centers) + 1e-13 * np.eye(43)
    T = np.linalg.cholesky(gram).T
    Z = np.linalg.solve(T.T, oracle.dense(KERNEL, X, all_centers).T).T
    seen = Z.copy()
    seen[:200, 40:] = 0.0
    Zc, yc = seen - seen.mean(0), y - y.mean()
    v = np.linalg.solve(Zc.T @ Zc / 400 + 1e-4 * np.eye(43), Zc.T @ yc / 400)
    expected = (Z - seen.mean(0)) @ v + y.mean()
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-7)
