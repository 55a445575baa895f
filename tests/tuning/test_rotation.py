"""A problem with more features than rows is the same one in fewer coordinates."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Matern, ProductLaplacian, RationalQuadratic
from gyrfalcon.tuning.rotation import narrowed, widened_as

N, D = 12, 40
random = np.random.default_rng(0)
X = 5 + random.normal(size=(N, D)) * random.uniform(0.1, 10, size=D)
SCALES = random.uniform(3, 300, size=D).tolist()


def problem(kernel, points=X):
    K = gf.KernelMatrix(kernel, points)
    return gf.solvers.LeastSquares(K, torch.as_tensor(points[:, :1], dtype=K.dtype), penalty=1e-3)


@pytest.mark.parametrize(
    ("kernel", "features"),
    [
        (Gaussian(30.0), N),
        (Gaussian(SCALES), N),
        (Matern(SCALES, nu=1.5), N),
        (RationalQuadratic(SCALES, alpha=0.7), N),
        (ProductLaplacian(SCALES, power=0.5), D),
    ],
)
def test_kernel_values_are_kept_for_every_common_factor(kernel, features):
    wide = problem(kernel)
    narrow = narrowed(wide)
    assert narrow.K.n_features == features
    found = narrow.K.kernel.with_parameters({"length_scale": 1.7 * narrow.K.kernel.length_scale})
    back = widened_as(wide, found)
    np.testing.assert_allclose(back.length_scale, 1.7 * np.array(kernel.length_scale), rtol=1e-12)
    points = np.asarray(narrow.K.centers)
    np.testing.assert_allclose(found(points), back(X), rtol=1e-10)
    np.testing.assert_allclose(narrow.K.kernel(points), kernel(X), rtol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "points"),
    [
        (gf.kernels.Linear(), X),
        (Gaussian(30.0), X[:, :N]),
        (Gaussian(30.0), X.astype(np.float32)),
        (Gaussian(1e300), X * 1e300),
    ],
)
def test_other_problems_are_left_as_they_are(kernel, points):
    wide = problem(kernel, points)
    assert narrowed(wide) is wide


def test_automatic_tuning_finds_the_same_kernel(monkeypatch):
    points = np.random.default_rng(1).normal(size=(80, 150))
    y = points[:, 0] + 0.5 * points[:, 1]
    narrow = gf.KernelRegressor(random_state=0).fit(points, y)
    monkeypatch.setattr("gyrfalcon.tuning.recipe.narrowed", lambda problem: problem)
    wide = gf.KernelRegressor(random_state=0).fit(points, y)
    assert type(narrow.kernel_) is type(wide.kernel_)
    np.testing.assert_allclose(narrow.kernel_.length_scale, wide.kernel_.length_scale, rtol=0.02)  # two digits are kept
    np.testing.assert_allclose(narrow.predict(points), wide.predict(points), atol=0.02 * y.std())
