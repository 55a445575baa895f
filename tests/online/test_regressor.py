"""RecursiveRegressor is the batch solution, however the rows come; what is wrong is refused before anything changes."""

import itertools

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.online import RecursiveRegressor
from reference.recursive import deviation, forgotten, ridge
from reference.states import digest


def _data(n=300, d=6, t=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    W = rng.normal(size=(d, t or 1))
    Y = X @ W + 2.0 + 0.3 * rng.normal(size=(n, t or 1))
    return X, Y if t else Y[:, 0]


@given(
    cuts=st.lists(st.integers(1, 300), min_size=0, max_size=8),
    outputs=st.sampled_from([None, 1, 3]),
    intercept=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_any_cutting_into_batches_is_the_batch_solution(cuts, outputs, intercept):
    X, y = _data(t=outputs)
    y = y[:, 0] if outputs == 1 else y
    model = RecursiveRegressor(penalty=0.1, fit_intercept=intercept)
    edges = sorted({0, 300, *(cut for cut in cuts if cut < 300)})
    for start, stop in itertools.pairwise(edges):
        model.partial_fit(X[start:stop], y[start:stop])
    W, b = ridge(X, y, 0.1, intercept=intercept)
    np.testing.assert_allclose(model.coefficients_, W if outputs == 3 else W[:, 0], atol=1e-10)
    np.testing.assert_allclose(model.intercept_, b if outputs == 3 else b[0], atol=1e-10)
    assert model.n_seen_ == 300


def test_five_thousand_rows_in_any_order_and_any_batches():
    X, y = _data(5000, 30, 2)
    W, _ = ridge(X, y, 1e-3)
    rng = np.random.default_rng(1)
    for sizes in ([1] * 5000, [7] * 800, [5000]):
        order, start = rng.permutation(5000), 0
        model = RecursiveRegressor()
        for size in sizes:
            rows = order[start : start + size]
            if len(rows):
                model.partial_fit(X[rows], y[rows])
            start += size
        np.testing.assert_allclose(model.coefficients_, W, atol=1e-10)


def test_weights_are_repetitions_and_zeros_are_absences():
    X, y = _data(60)
    counts = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = RecursiveRegressor(penalty=0.1).partial_fit(X, y, sample_weight=counts)
    repeated = RecursiveRegressor(penalty=0.1).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coefficients_, repeated.coefficients_, atol=1e-12)
    assert weighted.n_seen_ == (counts > 0).sum()
    np.testing.assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-12)


@pytest.mark.parametrize("forgetting", [0.999, 0.99, 0.5])
def test_forgetting_is_the_weighted_batch(forgetting):
    X, y = _data(1500, 12)
    model = RecursiveRegressor(penalty=0.2, forgetting=forgetting)
    for start in range(0, 1500, 11):
        model.partial_fit(X[start : start + 11], y[start : start + 11])
    weights = forgotten(1500, forgetting)
    W, b = ridge(X, y, 0.2, weights)
    np.testing.assert_allclose(model.coefficients_, W[:, 0], atol=1e-10)
    np.testing.assert_allclose(model.intercept_, b[0], atol=1e-10)
    mean, std = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, X[:5] @ W[:, 0] + b, atol=1e-10)
    np.testing.assert_allclose(std, deviation(X, y, 0.2, X[:5], weights)[:, 0], rtol=1e-8)


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_deviations_are_those_of_bayesian_regression(outputs, intercept):
    X, y = _data(80, t=outputs)
    model = RecursiveRegressor(penalty=0.5, fit_intercept=intercept).fit(X, y)
    at = np.random.default_rng(3).normal(size=(9, 6)) * 5
    mean, std = model.predict(at, return_std=True)
    expected = deviation(X, y, 0.5, at, intercept=intercept)
    np.testing.assert_allclose(std, expected if outputs else expected[:, 0], rtol=1e-9)
    np.testing.assert_allclose(mean, model.predict(at), atol=1e-12)


def test_a_window_after_a_hundred_thousand_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0]
    y = X @ np.arange(5.0) + rng.normal(size=100_000)
    model = RecursiveRegressor(penalty=1e-3, window=200)
    for row, target in zip(X, y, strict=True):
        model.learn_one(row, target)
    model.predict_one(X[0])
    W, b = ridge(X[-200:], y[-200:], 1e-3)
    np.testing.assert_allclose(model.coefficients_, W[:, 0], atol=1e-9)
    np.testing.assert_allclose(model.intercept_, b[0], atol=1e-9)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_a_million_updates_of_condition_1e10(dtype, error):
    rng = np.random.default_rng(0)
    d, penalty = 40, 1e-6
    scales = np.logspace(0, -5, d)  # the gram matrix has the condition 1e10
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    truth = rng.normal(size=d)
    model = RecursiveRegressor(penalty=penalty, fit_intercept=False)
    triangles = [np.hstack([np.sqrt(penalty) * np.eye(d), np.zeros((d, 1))])]
    for _ in range(100):
        X = ((rng.normal(size=(10_000, d)) * scales) @ rotation).astype(dtype)
        y = (X.astype(float) @ rotation.T @ truth + 0.1 * rng.normal(size=10_000)).astype(dtype)
        for start in range(0, 10_000, 50):  # fewer rows than LAPACK takes: each is a rank-one update
            model.partial_fit(X[start : start + 50], y[start : start + 50])
        triangles.append(np.linalg.qr(np.column_stack([X, y]).astype(float), mode="r"))
    stacked = np.vstack(triangles)  # has the solution of all rows
    exact = np.linalg.lstsq(stacked[:, :d], stacked[:, d], rcond=None)[0]
    at = (rng.normal(size=(100, d)) * scales) @ rotation
    assert np.abs(model.predict(at) - at @ exact).max() / np.abs(at @ exact).max() < error


@pytest.mark.parametrize(
    "bad",
    [
        lambda X, y: (np.where(np.arange(6) == 2, np.nan, X), y),
        lambda X, y: (np.where(np.arange(6) == 2, np.inf, X), y),
        lambda X, y: (X[:, :5], y),
        lambda X, y: (X.astype("datetime64[s]"), y),
        lambda X, y: (X.astype(str).astype(object) + "x", y),
        lambda X, y: (X * 1j, y),
        lambda X, y: (X * 1e200, y),
        lambda X, y: (X, y * np.nan),
        lambda X, y: (X, y[:-1]),
        lambda X, y: (X, np.stack([y, y], 1)),
        lambda X, y: (X, ["a"] * len(y)),
        lambda X, y: (X, None),
        lambda X, y: (X[:0], y[:0]),
        lambda X, y: (X, y * 1e200),
    ],
)
@pytest.mark.parametrize("window", [None, 10])
def test_what_is_wrong_is_refused_before_the_state_changes(bad, window):
    X, y = _data(50)
    model = RecursiveRegressor(window=window).fit(X, y)
    before = digest(model)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(*bad(X, y))
    assert digest(model) == before
    with pytest.raises((ValueError, TypeError)):
        model.fit(*bad(X, y)) if X.shape == np.shape(bad(X, y)[0]) and np.ndim(bad(X, y)[1]) == 1 else model.fit(
            X[0], y
        )
    assert digest(model) == before
    model.partial_fit(X, y)


def test_a_later_block_that_is_refused_takes_the_earlier_ones_back():
    class Trap(StandardScaler):
        def transform(self, X):
            Z = super().transform(X)
            Z[X[:, 0] > 100] = np.nan
            return Z

    X, y = _data(5000)
    model = RecursiveRegressor(Trap()).fit(X, y)
    X[4000, 0] = 1000.0
    before = model.coefficients_.copy(), model.n_seen_
    with pytest.raises(ValueError, match="NaN, infinity"):
        RecursiveRegressor(Trap()).fit(X, y)
    gf.online.base.BLOCK_NUMBERS, kept = 1000, gf.online.base.BLOCK_NUMBERS
    try:
        with pytest.raises(ValueError, match="NaN, infinity"):
            model.partial_fit(X, y)
    finally:
        gf.online.base.BLOCK_NUMBERS = kept
    assert (model.coefficients_ == before[0]).all()
    assert model.n_seen_ == before[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("penalty", 0.0),
        ("penalty", -1),
        ("penalty", "auto"),
        ("penalty", np.nan),
        ("forgetting", 0.0),
        ("forgetting", 1.1),
        ("forgetting", None),
        ("window", 0),
        ("window", 1.5),
        ("features", "gaussian"),
    ],
)
def test_parameters_are_checked(name, value):
    X, y = _data(20)
    with pytest.raises(ValueError, match=name):
        RecursiveRegressor(**{name: value}).fit(X, y)


def test_kinds_of_data():
    X, y = _data(50)
    expected = RecursiveRegressor().fit(X, y).predict(X)
    for kind in (torch.from_numpy, sparse.csr_array, lambda A: pandas.DataFrame(A, columns=list("abcdef"))):
        model = RecursiveRegressor().fit(kind(X), y)
        np.testing.assert_allclose(np.asarray(model.predict(kind(X))), expected, atol=1e-12)
    frame = pandas.DataFrame(X, columns=list("abcdef"), index=range(100, 150))
    predicted = RecursiveRegressor().fit(frame, pandas.Series(y, name="load")).predict(frame)
    assert isinstance(predicted, pandas.Series)
    assert predicted.name == "load"
    assert predicted.index[0] == 100


def test_features_of_any_kind_equal_ridge_on_them():
    X, y = _data(400, 3)
    features = gf.RandomFeatures("gaussian", n_features=50, length_scale=2.0, random_state=0)
    for transformer in (features, make_pipeline(StandardScaler(), features), StandardScaler()):
        model = RecursiveRegressor(transformer, penalty=0.1)
        for start in range(0, 400, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100])
        Z = model.features_.transform(X)
        expected = Ridge(alpha=0.1).fit(Z, y).predict(Z)
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)
    fitted = StandardScaler().fit(X)
    assert RecursiveRegressor(fitted).fit(X[:5], y[:5]).features_ is fitted


def test_one_row_at_a_time():
    X, y = _data(100)
    names = list("abcdef")
    batch = RecursiveRegressor().fit(X, y)
    model = RecursiveRegressor()
    assert model.predict_one(dict(zip(names, X[0], strict=True))) == 0.0
    for row, target in zip(X, y, strict=True):
        model.learn_one(dict(zip(names, row, strict=True)), target)
    mean, std = model.predict_one(dict(zip(names[::-1], X[3, ::-1], strict=True)), with_std=True)
    expected = batch.predict(X[3:4], return_std=True)
    np.testing.assert_allclose([mean, std], np.ravel(expected), atol=1e-12)
    np.testing.assert_allclose(model.coefficients_, batch.coefficients_, atol=1e-12)
    before = digest(model)
    good = dict(zip(names, X[0], strict=True))
    for x, y_ in ((good | {"a": np.nan}, 1.0), (good | {"g": 1.0}, 1.0), ({"a": 1.0}, 1.0), (good, np.nan),
                  (good, "x"), (good, [1.0, 2.0]), (X[0, :4], 1.0)):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x, y_)
    renamed = {"z" if name == "a" else name: value for name, value in good.items()}
    with pytest.raises(ValueError, match="lacks the feature 'a'"):
        model.learn_one(renamed, 1.0)
    assert digest(model) == before


def test_models_merge():
    X, y = _data(5000, 20, 2)
    features = StandardScaler().fit(X)
    one, two = (RecursiveRegressor(features).fit(X[rows], y[rows]) for rows in (slice(1234), slice(1234, None)))
    before = digest(one), digest(two)
    merged, both = one.merge(two), RecursiveRegressor(features).fit(X, y)
    assert (digest(one), digest(two)) == before
    np.testing.assert_allclose(merged.coefficients_, both.coefficients_, atol=1e-10)
    np.testing.assert_allclose(merged.noise_variance_, both.noise_variance_, rtol=1e-10)
    assert merged.n_seen_ == 5000
    merged.partial_fit(X, y)
    for other in (
        RecursiveRegressor(features, penalty=1.0).fit(X, y),
        RecursiveRegressor(features).fit(X, y[:, 0]),
        RecursiveRegressor(StandardScaler()).fit(X * 2 + 1, y),
        RecursiveRegressor(features),
        Ridge().fit(X, y),
    ):
        with pytest.raises((ValueError, TypeError)):
            one.merge(other)
    windowed = RecursiveRegressor(window=5).fit(X, y)
    with pytest.raises(ValueError, match="window"):
        windowed.merge(windowed)
