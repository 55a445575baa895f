"""Models of partitions that are merged in a tree, against models of all rows."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.online import RecursiveClassifier, RecursiveRegressor, fit_partitions

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

random = np.random.default_rng(0)
X = random.normal(size=(503, 4))
y = np.sin(X[:, 0]) + 0.1 * random.normal(size=503)
labels = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])]


@pytest.mark.parametrize("chunk", [503, 100, 7])
def test_regression_equals_all_rows_at_once(chunk):
    model = fit_partitions(
        RecursiveRegressor(penalty=0.1), da.from_array(X, chunks=(chunk, 3)), da.from_array(y, chunk)
    )
    whole = RecursiveRegressor(penalty=0.1).fit(X, y)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, atol=1e-10)
    np.testing.assert_allclose(model.noise_variance_, whole.noise_variance_, rtol=1e-8)
    assert model.n_seen_ == 503
    assert model.partial_fit(X[:5], y[:5]).n_seen_ == 508


def test_classes_that_some_partitions_lack():
    order = np.argsort(labels, kind="stable")
    frame = pd.DataFrame(X[order], columns=list("uvwx")).assign(kind=labels[order], heavy=np.arange(503) % 3)
    model = fit_partitions(
        RecursiveClassifier(rebalance=True), dd.from_pandas(frame, npartitions=6), target="kind", weight="heavy"
    )
    whole = RecursiveClassifier(rebalance=True).fit(X[order], labels[order], sample_weight=np.arange(503) % 3)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, atol=1e-10)
    assert model.feature_names_in_.tolist() == list("uvwx")


def test_features_are_fitted_to_the_first_partition_and_shared():
    model = fit_partitions(RecursiveRegressor(StandardScaler()), da.from_array(X, (100, 4)), da.from_array(y, 100))
    np.testing.assert_allclose(model.features_.mean_, X[:100].mean(0))
    whole = RecursiveRegressor(StandardScaler().fit(X[:100])).fit(X, y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-10)


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        (RecursiveRegressor(window=5), (da.from_array(X), da.from_array(y)), "order of rows"),
        (RecursiveRegressor(forgetting=0.9), (da.from_array(X), da.from_array(y)), "order of rows"),
        (RecursiveRegressor(), (X, y), "must be a Dask collection"),
        (RecursiveRegressor(), (da.from_array(X),), "needs y"),
        (RecursiveRegressor(), (da.from_array(X, (100, 4)), da.from_array(y, 50)), "same chunks of rows"),
        (gf.KernelRegressor(), (da.from_array(X), da.from_array(y)), "must be a recursive model"),
    ],
)
def test_what_does_not_apply_is_refused(model, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        fit_partitions(model, *arguments)


def test_a_frame_needs_its_target():
    frame = dd.from_pandas(pd.DataFrame({"u": [1.0, 2.0], "t": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(ValueError, match="target is missing"):
        fit_partitions(RecursiveRegressor(), frame)
