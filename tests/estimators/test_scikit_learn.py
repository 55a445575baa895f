"""scikit-learn's own checks, all of them, with no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import gyrfalcon as gf

ESTIMATORS = [
    gf.KernelRegressor(),
    gf.KernelRegressor(loss="robust", tune=None),
    gf.KernelRegressor(solver="falkon", centers="kmeans", tune=None),
    gf.KernelRegressor(solver="direct", centers="pivoted", tune=None),
    gf.KernelRegressor(partition=gf.Partition(leaf_rows=20, centers=10), tune=None),
    gf.KernelClassifier(partition=gf.Partition(leaf_rows=20, centers=10), tune=None),
    gf.KernelRegressor(updatable=True, tune=None),
    gf.KernelClassifier(),
    gf.KernelClassifier(updatable=True, tune=None),
    gf.KernelClassifier(coding="simplex", class_weight="balanced", tune=None),
    gf.KernelClassifier(loss="logistic", tune="loocv"),
    gf.KernelClassifier(loss="softmax", tune=None),
    gf.KernelClassifier(loss="exponential", tune=None),
    gf.Falkon(),
    gf.LogisticFalkon(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)
