"""What a feature is worth is what its values, shuffled over the test rows, cost: as scikit-learn counts it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline

import gyrfalcon as gf
from gyrfalcon.report import importance as module
from gyrfalcon.report.evidence import gather
from gyrfalcon.report.importance import importance

SETTINGS = {"random_state": 0, "verbose": False}


def rows(n=500, d=2):
    X = np.random.default_rng(0).uniform(-1, 1, size=(n, d))
    return X, 3 * X[:, 0] + 0.1 * np.sin(20 * X[:, 1])


def homes(n=400):
    random = np.random.default_rng(0)
    city, area = random.choice(["Rome", "Oslo", "Bari", "Genoa"], n), random.uniform(1, 2, n)
    table = pd.DataFrame({"noise": random.normal(size=n), "area": area, "city": city})
    return table, area * table["city"].map({"Rome": 4.0, "Oslo": 3.0, "Bari": 1.0, "Genoa": 2.0}).to_numpy()


def test_what_is_large_and_linear_comes_before_what_is_small_and_bends(tmp_path):
    X, y = rows()
    model = gf.KernelRegressor(**SETTINGS).fit(X[:300], y[:300])
    evidence = gather(model, X[300:], y[300:])
    assert gf.tuning.relevance(model).argmax() == 1  # which is about bends
    assert list(evidence.importance) == ["x0", "x1"]
    assert evidence.by_importance == [0, 1]
    page = model.report(X[300:], y[300:], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "How much larger the RMSE gets when the values of one feature are shuffled over the test rows." in page


def test_growth_is_that_of_scikit_learn():
    X, y = rows(2000, 3)
    y = y + 0.3 * np.random.default_rng(1).normal(size=len(y))
    model = gf.KernelRegressor(tune=None, **SETTINGS).fit(X[:1000], y[:1000])
    found, _ = importance(model, X[1000:], list("abc"), y[1000:])
    scored = {"scoring": "neg_root_mean_squared_error", "n_repeats": 5, "random_state": 0}
    expected = permutation_importance(model, X[1000:], y[1000:], **scored).importances_mean
    plain = np.sqrt(((model.predict(X[1000:]) - y[1000:]) ** 2).mean())
    np.testing.assert_allclose([found[name] for name in "abc"], expected / plain, rtol=0.05, atol=0.02)
    labels = np.where(y > 0, "up", "down")
    model = gf.KernelClassifier(tune=None, **SETTINGS).fit(X[:1000], labels[:1000])
    found, _ = importance(model, X[1000:], list("abc"), labels[1000:])

    def log_likelihood(model, X, labels):
        chances = model.predict_proba(X)[np.arange(len(X)), (labels == "up").astype(int)]
        return np.log(np.maximum(chances, module.LEAST_LIKELY)).mean()

    scored = {"scoring": log_likelihood, "n_repeats": 5, "random_state": 0}
    expected = permutation_importance(model, X[1000:], labels[1000:], **scored).importances_mean
    np.testing.assert_allclose([found[name] for name in "abc"], expected, rtol=0.05, atol=0.02)


def test_importance_shows_where_a_rare_class_is_never_predicted(tmp_path):
    X, _ = rows(1200)
    rare = np.random.default_rng(3).random(1200) < 0.02 + 0.18 * (X[:, 0] > 0.6)
    model = gf.KernelClassifier(loss="logistic", tune=None, **SETTINGS).fit(X[:800], rare[:800])
    assert not model.predict(X[800:]).any()  # so that no shuffling makes more predictions wrong
    evidence = gather(model, X[800:], rare[800:])
    assert list(evidence.importance) == ["x0", "x1"]
    assert evidence.importance["x0"] > 0.01
    page = model.report(X[800:], rare[800:], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "How much larger the log loss gets" in page
    assert "The class &#x27;True&#x27; is never predicted" in page
    assert "Average precision" in page


def test_a_column_of_categories_counts_once_and_as_a_whole():
    table, y = homes()
    model = make_pipeline(gf.TablePreprocessor(), gf.KernelRegressor(tune=None, **SETTINGS)).fit(table[:200], y[:200])
    evidence = gather(model, table[200:], y[200:])
    assert len(evidence.names) == 6
    assert list(evidence.importance) == ["city", "area", "noise"]
    assert [evidence.columns[place] for place in evidence.by_importance] == 4 * ["city"] + ["area", "noise"]
    random, now, grown = np.random.default_rng(1), y[200:] - model.predict(table[200:]), []
    for _ in range(20):
        other = table[200:].assign(city=random.permutation(table["city"][200:]))
        grown.append(np.sqrt(((y[200:] - model.predict(other)) ** 2).mean() / (now**2).mean()) - 1)
    assert evidence.importance["city"] == pytest.approx(np.mean(grown), rel=0.1)


def test_sparse_rows_are_shuffled_as_dense_ones():
    X, _ = rows(200, 4)
    X[X < 0.2] = 0
    orders = np.random.default_rng(0).permutation(200)
    dense, thin = (module._shuffled(points, [1, 3], orders) for points in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(thin.toarray(), dense)
    np.testing.assert_array_equal(dense, np.column_stack([X[:, 0], X[orders, 1], X[:, 2], X[orders, 3]]))


def test_work_is_bounded():
    X, y = rows(1500, 20)
    model = gf.KernelRegressor(tune=None, **SETTINGS).fit(X, y)
    sizes = [module._affordable(100_000, columns, model) for columns in (1, 300, 900, 100_000)]
    assert sizes[0] == (module.MOST_ROWS, module.SHUFFLES)
    products = [rows * shuffles for rows, shuffles in sizes]
    assert products[0] > products[1] > products[2] > products[3] == 0


def test_what_cannot_be_known_is_told(tmp_path):
    X, y = rows(60)
    model = gf.KernelRegressor(tune=None, **SETTINGS).fit(X, y)
    page = model.report(X[:1], y[:1], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "How much each feature matters is not known: one test row cannot be shuffled." in page
    assert importance(model, X, ["a", "b"], model.predict(X)) == ({}, "the model makes no error that could grow")
    with pytest.raises(ValueError, match="columns has 1 names but the model has 2 features"):
        gather(model, X, y, columns=["a"])
