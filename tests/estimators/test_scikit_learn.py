"""scikit-learn's own checks, all of them, with no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import gyrfalcon as gf

ESTIMATORS = [
    gf.KernelRegressor(),
    gf.KernelRegressor(loss="robust"),
    gf.KernelRegressor(solver="falkon", centers="kmeans"),
    gf.KernelRegressor(solver="direct", centers="pivoted"),
    gf.KernelClassifier(),
    gf.KernelClassifier(coding="simplex", class_weight="balanced"),
    gf.KernelClassifier(loss="logistic"),
    gf.KernelClassifier(loss="softmax"),
    gf.KernelClassifier(loss="exponential"),
    gf.Falkon(),
    gf.LogisticFalkon(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)
