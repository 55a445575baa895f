"""Features are not a kernel: who needs inner products says so and names what to use, whatever wraps the features."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.kernels import Fourier, Gaussian, Mapped

X = np.random.default_rng(0).normal(size=(30, 2))
y = np.sin(X[:, 0])
REMEDY = r"make_pipeline\(gf.RandomFeatures\(...\), Ridge\(\)\), or gf.solvers on"
WRAPPED = {
    "alone": Fourier(),
    "scaled": 0.5 * Fourier(),
    "summed": Gaussian() + Fourier(),
    "multiplied": Fourier() * Gaussian(),
    "mapped": Mapped(Fourier(), [[1.0, 1.0]]),
    "nested": 2.0 * (Gaussian() + 3.0 * Fourier()),
}
wrapped = pytest.mark.parametrize("kernel", WRAPPED.values(), ids=WRAPPED.keys())


@wrapped
def test_kernels_made_of_features_are_features(kernel):
    assert kernel.explicit
    assert not (2.0 * (Gaussian() + Gaussian() * Gaussian())).explicit


@pytest.mark.parametrize("kind", [gf.KernelRegressor, gf.KernelClassifier, gf.Falkon, gf.LogisticFalkon])
@wrapped
def test_estimators_name_the_remedy(kind, kernel):
    with pytest.raises(ValueError, match=f"{kind.__name__} cannot fit it: use {REMEDY}"):
        kind(kernel).fit(X, (y > 0) if "Classifier" in kind.__name__ or "Logistic" in kind.__name__ else y)


@pytest.mark.parametrize("tune", [None, "gcv", gf.tuning.PenaltyPath()])
def test_estimators_refuse_however_they_are_tuned(tune):
    with pytest.raises(ValueError, match=REMEDY):
        gf.KernelRegressor(Fourier(), tune=tune).fit(X, y)


def posed(W):
    points = torch.from_numpy(X)
    K = gf.KernelMatrix(Fourier(amplitude=0.3), points, points if W is X else torch.from_numpy(W))
    return gf.solvers.LeastSquares(K, torch.from_numpy(y)[:, None], 1e-2)


@pytest.mark.parametrize("W", [X, X[:8]], ids=["as many as rows", "few"])
@pytest.mark.parametrize("method", [gf.tuning.Exact(), gf.tuning.Stochastic()], ids=["exact", "stochastic"])
@pytest.mark.parametrize("objective", sorted(gf.tuning.OBJECTIVES))
def test_tuning_names_the_remedy(objective, method, W):
    with pytest.raises(ValueError, match=f"tuning cannot differentiate it: use {REMEDY}"):
        gf.tuning.tune(posed(W), objective, method=method, steps=1)


@pytest.mark.parametrize("W", [X, X[:8]], ids=["as many as rows", "few"])
def test_errors_without_gradients_are_those_of_ridge_on_the_features(W):
    problem = posed(W)
    Z = 0.3 * (np.cos(X @ W.T) + np.sin(X @ W.T))
    hat = Z @ np.linalg.solve(Z.T @ Z + len(X) * 1e-2 * np.eye(len(W)), Z.T)
    errors = ((y - hat @ y) / (1 - np.diag(hat))) ** 2
    found = gf.tuning.LeaveOneOut().evaluate(problem, gf.tuning.Exact(), gradient=False).value
    assert found == pytest.approx(errors.mean(), rel=1e-9)
