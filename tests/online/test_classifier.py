"""RecursiveClassifier is the batch solution, whatever the order of rows and classes."""

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.online import RecursiveClassifier, recoding
from reference.recursive import forgotten, one_hot, rebalanced, recoded, ridge
from reference.states import digest


def _data(n=400, d=8, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    shares = 0.5 ** np.arange(classes)
    labels = np.concatenate([np.arange(classes), rng.choice(classes, p=shares / shares.sum(), size=n - classes)])
    X = rng.normal(size=(n, d))
    X[np.arange(n), labels] += 2.0
    return X, labels


def _fed(model, X, y, order, size):
    for start in range(0, len(X), size):
        rows = order[start : start + size]
        model.partial_fit(X[rows], y[rows])
    return model


@given(size=st.integers(1, 400), order=st.sampled_from(["as is", "random", "by class", "by class, backwards"]))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("names", [False, True])
def test_any_order_of_rows_and_classes_is_the_batch_solution(names, size, order):
    X, labels = _data()
    y = np.array(["cup", "ball", "a longer name", "book"])[labels] if names else labels
    orders = {
        "as is": np.arange(400),
        "random": np.random.default_rng(1).permutation(400),
        "by class": np.argsort(labels, kind="stable"),
        "by class, backwards": np.argsort(labels, kind="stable")[::-1],
    }
    model = _fed(RecursiveClassifier(penalty=0.1), X, y, orders[order], size)
    classes, Y = one_hot(y)
    W, b = ridge(X, Y, 0.1)
    assert model.classes_.tolist() == classes.tolist()
    np.testing.assert_allclose(model.coefficients_, W, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-10)
    np.testing.assert_allclose(model.decision_function(X), X @ W + b, atol=1e-10)
    assert (model.predict(X) == classes[(X @ W + b).argmax(1)]).all()
    assert model.counts_.tolist() == Y.sum(0).tolist()


def test_five_thousand_rows_class_by_class():
    X, y = _data(5000, 30, 8)
    W, _ = ridge(X, one_hot(y)[1], 1e-3)
    for order in (np.argsort(y, kind="stable"), np.random.default_rng(0).permutation(5000)):
        for size in (1, 93, 5000):
            model = _fed(RecursiveClassifier(), X, y, order, size)
            np.testing.assert_allclose(model.coefficients_, W, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_recoding_multiplies_scores(alpha):
    X, y = _data()
    model = _fed(RecursiveClassifier(penalty=0.1, recode=alpha), X, y, np.arange(400), 30)
    W, b = recoded(X, y, 0.1, alpha)
    np.testing.assert_allclose(model.decision_function(X), X @ W + b, atol=1e-10)
    if alpha == 0:
        plain = RecursiveClassifier(penalty=0.1).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 17, 400])
def test_rebalancing_is_exact(size, weighted):
    X, y = _data()
    weights = np.random.default_rng(0).uniform(0.5, 2, size=400) if weighted else None
    model = RecursiveClassifier(penalty=0.1, rebalance=True)
    for start in range(0, 400, size):
        rows = slice(start, start + size)
        model.partial_fit(X[rows], y[rows], sample_weight=None if weights is None else weights[rows])
    W, b = rebalanced(X, y, 0.1, weights)
    np.testing.assert_allclose(model.coefficients_, W, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-10)


@pytest.mark.parametrize("rebalance", [False, True])
def test_forgetting_is_the_weighted_batch(rebalance):
    X, y = _data()
    model = _fed(RecursiveClassifier(penalty=0.1, forgetting=0.98, rebalance=rebalance), X, y, np.arange(400), 7)
    weights = forgotten(400, 0.98)
    W, _ = rebalanced(X, y, 0.1, weights) if rebalance else ridge(X, one_hot(y)[1], 0.1, weights)
    np.testing.assert_allclose(model.coefficients_, W, atol=1e-10)
    np.testing.assert_allclose(model.counts_, weights @ one_hot(y)[1], atol=1e-10)


def test_a_window_forgets_classes():
    X, y = _data()
    order = np.argsort(y, kind="stable")
    model = _fed(RecursiveClassifier(penalty=0.1, window=50, recode=1.0), X, y, order, 7)
    last = order[-50:]
    classes, Y = one_hot(y[last])
    W, _ = ridge(X[last], Y, 0.1)
    inside = np.isin(model.classes_, classes)
    np.testing.assert_allclose(model.coefficients_[:, inside], W, atol=1e-10)
    np.testing.assert_allclose(model.coefficients_[:, ~inside], 0, atol=1e-12)
    assert np.isin(model.predict(X), classes).all()
    np.testing.assert_allclose(model.predict_proba(X)[:, ~inside], 0)


@pytest.mark.parametrize("rebalance", [False, True])
@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_models_with_other_classes_merge(rebalance, forgetting):
    X, y = _data()
    order = np.argsort(y, kind="stable")[::-1]
    one = RecursiveClassifier(penalty=0.1, rebalance=rebalance, forgetting=forgetting).fit(
        X[order[:250]], y[order[:250]]
    )
    two = RecursiveClassifier(penalty=0.1, rebalance=rebalance, forgetting=forgetting).fit(
        X[order[250:]], y[order[250:]]
    )
    before = digest(one), digest(two)
    merged = one.merge(two)
    assert (digest(one), digest(two)) == before
    weights = np.concatenate([forgotten(250, forgetting), forgotten(150, forgetting)])
    W, _ = (rebalanced(X[order], y[order], 0.1, weights) if rebalance
            else ridge(X[order], one_hot(y[order])[1], 0.1, weights))  # fmt: skip
    np.testing.assert_allclose(merged.coefficients_, W, atol=1e-10)
    assert merged.n_seen_ == 400
    merged.partial_fit(X, y)


def test_classes_can_be_removed():
    X, y = _data()
    plain = RecursiveClassifier(penalty=0.1, recode="auto").fit(X, y)
    plain.remove_class(1)
    assert plain.classes_.tolist() == [0, 2, 3]
    assert not (plain.predict(X) == 1).any()
    exact = RecursiveClassifier(penalty=0.1, rebalance=True).fit(X, y).remove_class(np.int64(1))
    W, _ = rebalanced(X[y != 1], y[y != 1], 0.1)
    np.testing.assert_allclose(exact.coefficients_, W, atol=1e-10)
    exact.partial_fit(X, y)
    assert exact.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="must be one of the classes"):
        plain.remove_class("cup")
    alone = RecursiveClassifier().fit(X[:5], np.zeros(5, dtype=int))
    with pytest.raises(ValueError, match="only class"):
        alone.remove_class(0)


def test_a_stream_may_begin_with_one_class():
    X, y = _data()
    model = RecursiveClassifier().partial_fit(X[:1], ["only"])
    assert model.predict(X).tolist() == ["only"] * 400
    assert (model.predict_proba(X) == 1).all()
    assert model.decision_function(X).shape == (400,)
    model.partial_fit(X, np.array(["a", "b", "c", "d"])[y])
    assert model.classes_.tolist() == ["a", "b", "c", "d", "only"]
    announced = RecursiveClassifier().partial_fit(X[:9], y[:9], classes=[0, 1, 2, 3, 9])
    assert announced.classes_.tolist() == [0, 1, 2, 3, 9]
    assert not (announced.predict(X) == 9).any()


def test_ten_thousand_classes():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10_000, 12))
    model = RecursiveClassifier(penalty=1e-3)
    for start in range(0, 10_000, 1000):
        model.partial_fit(
            centers[start : start + 1000], np.char.add("class ", np.arange(start, start + 1000).astype(str))
        )
    model.learn_one(centers[0], "another")
    assert len(model.classes_) == 10_001
    assert len(np.unique(model.predict(centers[:50]))) > 1
    assert model.predict_one(centers[0]) in model.classes_


@pytest.mark.parametrize(
    "bad",
    [
        lambda X, y: (np.where(np.arange(8) == 2, np.nan, X), y),
        lambda X, y: (X[:, :5], y),
        lambda X, y: (X, y[:-1]),
        lambda X, y: (X, y + 0.5),
        lambda X, y: (X, np.array(["new"] * len(y))),
        lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)),
        lambda X, y: (X, None),
        lambda X, y: (X, np.full(len(y), None)),
    ],
)
@pytest.mark.parametrize("options", [{}, {"recode": "auto"}, {"rebalance": True}, {"window": 20}])
def test_what_is_wrong_is_refused_before_the_state_changes(bad, options):
    X, y = _data(60)
    model = RecursiveClassifier(**options).fit(X, y)
    before = digest(model)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(*bad(X, y))
    for x, label in ((X[0] * np.nan, 0), (X[0, :3], 0), (X[0], "text"), (X[0], np.nan), (X[0], None), (X[0], [1, 2])):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x, label)
    assert digest(model) == before
    model.partial_fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"recode": "max"},
        {"recode": 1.5},
        {"recode": -0.1},
        {"rebalance": True, "recode": 0.5},
        {"rebalance": True, "window": 5},
        {"rebalance": True, "recode": "auto"},
        {"penalty": 0},
    ],
)
def test_parameters_are_checked(options):
    X, y = _data(20)
    with pytest.raises(ValueError, match=r"recode|rebalance|penalty"):
        RecursiveClassifier(**options).fit(X, y)


def test_automatic_recoding_helps_the_rare_class_and_hurts_nobody():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 10))
    counts = [1000, 1000, 1000, 1000, 30]
    y = np.repeat(np.arange(5), counts)
    X = centers[y] + 1.3 * rng.normal(size=(len(y), 10))
    y_test = np.repeat(np.arange(5), 1000)
    X_test = centers[y_test] + 1.3 * rng.normal(size=(5000, 10))
    order = rng.permutation(len(y))
    naive = _fed(RecursiveClassifier(), X, y, order, 100)
    model = _fed(RecursiveClassifier(recode="auto"), X, y, order, 100)
    assert model.n_seen_ == len(y) - len(y) // 6
    assert 0 < model.recode_ <= 1
    rare, others = y_test == 4, y_test != 4
    right, before = model.predict(X_test) == y_test, naive.predict(X_test) == y_test
    assert right[rare].mean() > before[rare].mean() + 0.1
    assert right[others].mean() > before[others].mean() - 0.015


def test_rows_held_out_are_the_latest_and_few():
    held_out = recoding.HeldOut(2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        held_out.add(rng.normal(size=(100, 2)), rng.choice([0, 0, 0, 1], size=100), 600)
    held_out.add(np.ones((3, 2)), np.array([2, 2, 2]), 18)
    assert held_out.rows == recoding.MOST_ROWS
    assert np.bincount(held_out.columns)[2] == 3
    assert abs(np.diff(np.bincount(held_out.columns)[:2])[0]) <= 3
    held_out.drop(0)
    assert set(held_out.columns.tolist()) == {0, 1}


def test_one_row_at_a_time():
    X, y = _data(120)
    names = [f"x{j}" for j in range(8)]
    model, batch = RecursiveClassifier(), RecursiveClassifier().fit(X, y)
    assert model.predict_one(dict(zip(names, X[0], strict=True))) is None
    for row, label in zip(X, y, strict=True):
        model.learn_one(dict(zip(names, row, strict=True)), int(label))
    np.testing.assert_allclose(model.coefficients_, batch.coefficients_, atol=1e-12)
    x = dict(zip(names, X[0], strict=True))
    assert model.predict_one(x) == batch.predict(X[:1])[0]
    probabilities = model.predict_proba_one(x)
    np.testing.assert_allclose([probabilities[label] for label in range(4)], batch.predict_proba(X[:1])[0], atol=1e-12)


def test_frames_come_back():
    X, y = _data(60)
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    model = RecursiveClassifier().fit(frame, pandas.Series(y))
    assert isinstance(model.predict(frame), pandas.Series)
    assert model.predict_proba(frame).columns.tolist() == ["0", "1", "2", "3"]


def test_random_features_separate_what_lines_cannot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = np.where((X**2).sum(1) < 1, "inside", "outside")
    features = gf.RandomFeatures(n_features=200, random_state=0)
    model = _fed(RecursiveClassifier(features), X[:1000], y[:1000], np.arange(1000), 100)
    assert model.score(X[1000:], y[1000:]) > 0.95
