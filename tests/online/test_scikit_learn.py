"""scikit-learn's own checks, those of partial_fit included, with no expected failures."""

import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import gyrfalcon as gf
from gyrfalcon.online import RecursiveClassifier, RecursiveRegressor

ESTIMATORS = [
    RecursiveRegressor(),
    RecursiveRegressor(gf.RandomFeatures(n_features=100, length_scale=1.0, random_state=0)),
    RecursiveRegressor(StandardScaler(), fit_intercept=False),
    RecursiveRegressor(window=150),
    RecursiveRegressor(forgetting=0.99999999),
    RecursiveClassifier(),
    RecursiveClassifier(recode=0.5),
    RecursiveClassifier(rebalance=True),
    RecursiveClassifier(window=150),
    RecursiveClassifier(gf.RandomFeatures(n_features=100, length_scale=1.0, random_state=0)),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    if check.func.__name__.endswith("on_sparse_data") and not get_tags(estimator).input_tags.sparse:
        pytest.skip("scikit-learn 1.6 gives sparse rows to estimators whose tags say that they take none")
    check(estimator)
