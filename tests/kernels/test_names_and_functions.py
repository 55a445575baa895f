"""Kernels by name, kernels from Python functions, and what scikit-learn says they should be worth."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon import kernels
from gyrfalcon.kernels import Function, Gaussian, Laplacian, Linear, Matern, Polynomial, Sigmoid, as_kernel, from_name

GAMMA = 0.37
X, C = np.random.default_rng(0).standard_normal((12, 4)), np.random.default_rng(1).standard_normal((5, 4))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rbf", {"gamma": GAMMA}),
        ("linear", {}),
        ("polynomial", {"gamma": GAMMA, "degree": 4, "coef0": 0.3}),
        ("poly", {"gamma": GAMMA, "degree": 2, "coef0": 1.5}),
        ("sigmoid", {"gamma": GAMMA, "coef0": -0.2}),
    ],
)
def test_names_mean_what_they_mean_in_sklearn(name, options):
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    np.testing.assert_allclose(
        from_name(name, **options)(X, C), pairwise.pairwise_kernels(X, C, metric=name, **options), rtol=1e-12
    )


@pytest.mark.parametrize("scale", [1.3, [0.5, 1.0, 2.0, 3.0]])
def test_agrees_with_sklearn_gaussian_processes(scale):
    theirs = pytest.importorskip("sklearn.gaussian_process.kernels")
    np.testing.assert_allclose(Gaussian(scale)(X, C), theirs.RBF(scale)(X, C), rtol=1e-12)
    for nu in (0.5, 1.5, 2.5):
        np.testing.assert_allclose(Matern(scale, nu=nu)(X, C), theirs.Matern(scale, nu=nu)(X, C), rtol=1e-12)
    np.testing.assert_allclose((2 * Gaussian(scale) + Gaussian(1.0))(X), (2 * theirs.RBF(scale) + theirs.RBF(1.0))(X))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 50.0])
def test_rational_quadratic_agrees_with_sklearn(alpha):
    theirs = pytest.importorskip("sklearn.gaussian_process.kernels")
    found = kernels.RationalQuadratic(1.3, alpha)(X, C)
    np.testing.assert_allclose(found, theirs.RationalQuadratic(1.3, alpha)(X, C), rtol=1e-12)


def test_rational_quadratic_tends_to_gaussian_and_starts_at_cauchy():
    np.testing.assert_allclose(kernels.RationalQuadratic(1.3, 1e8)(X), Gaussian(1.3)(X), rtol=1e-6)
    np.testing.assert_allclose(kernels.RationalQuadratic(1.3, 1.0)(X), kernels.Cauchy(1.3 * 2**0.5)(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("rbf", {}, Gaussian(1.0)),
        ("gaussian", {"gamma": 2.0}, Gaussian(0.5)),
        ("laplacian", {"gamma": 4.0}, Laplacian(0.25)),
        ("matern", {"nu": 2.5, "length_scale": 3.0}, Matern(3.0, nu=2.5)),
        ("cauchy", {"length_scale": [1.0, 2.0]}, kernels.Cauchy([1.0, 2.0])),
        ("exponential_power", {"power": 0.5}, kernels.ExponentialPower(power=0.5)),
        ("rational_quadratic", {"alpha": 2.0}, kernels.RationalQuadratic(alpha=2.0)),
        ("linear", {"gamma": 0.25}, Linear(2.0)),
        ("poly", {"degree": 2, "coef0": 0.0}, Polynomial(degree=2, offset=0.0)),
        ("sigmoid", {"gamma": 0.25, "coef0": 3}, Sigmoid(2.0, offset=3.0)),
    ],
)
def test_from_name(name, options, expected):
    assert from_name(name, **options) == expected


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("gauss", {}, "kernel"),
        (None, {}, "kernel"),
        (["rbf"], {}, "kernel"),
        ("rbf", {"gamma": 1.0, "length_scale": 1.0}, "gamma"),
        ("rbf", {"gamma": 0.0}, "gamma"),
        ("rbf", {"gamma": -1.0}, "gamma"),
        ("rbf", {"gamma": np.nan}, "gamma"),
        ("rbf", {"gamma": np.inf}, "gamma"),
        ("rbf", {"gamma": "scale"}, "gamma"),
        ("matern", {"gamma": 1.0}, "gamma"),
        ("rbf", {"coef0": 1.0}, "coef0"),
        ("rbf", {"degree": 2}, "degree"),
        ("poly", {"degree": 0}, "degree"),
        ("rbf", {"length_scale": -1.0}, "length_scale"),
    ],
)
def test_bad_names_and_options(name, options, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        from_name(name, **options)


def test_as_kernel():
    assert as_kernel("laplacian") == Laplacian(1.0)
    kernel = Gaussian(2.0)
    assert as_kernel(kernel) is kernel


def _minimum(X, C):
    return torch.minimum(X, C.T)


def test_functions_are_kernels():
    kernel, points = Function(_minimum), np.array([[1.0], [2.0], [3.0]])
    expected = np.minimum(points, points.T)
    np.testing.assert_array_equal(kernel(points), expected)
    K = gf.KernelMatrix(kernel, points)
    assert K.engine == "torch"
    np.testing.assert_array_equal(K @ np.ones(3), expected.sum(1))
    np.testing.assert_array_equal(K.diag(), [1, 2, 3])
    mixed = 2 * kernel + Gaussian(1.0)
    np.testing.assert_allclose(gf.KernelMatrix(mixed, points).to_dense(), 2 * expected + Gaussian(1.0)(points))


def test_functions_are_equal_to_themselves():
    other = Function(lambda X, C: X @ C.T)
    assert Function(_minimum) == Function(_minimum)
    assert hash(Function(_minimum)) == hash(Function(_minimum))
    assert Function(_minimum) != other
    assert 2 * Function(_minimum) + Gaussian() == 2 * Function(_minimum) + Gaussian()
    assert hash(2 * Function(_minimum)) == hash(2 * Function(_minimum))
    assert 2 * Function(_minimum) != 2 * other
    assert "_minimum" in repr(Function(_minimum))


def test_functions_claim_what_their_author_says():
    assert Function(_minimum).positive_definite
    assert not Function(_minimum, positive_definite_=False).positive_definite
    assert not (Function(_minimum, positive_definite_=False) + Gaussian()).positive_definite


def test_functions_cannot_be_stored():
    with pytest.raises(TypeError, match="Python function"):
        (2 * Function(_minimum)).to_dict()


def test_gradients_flow_through_functions():
    points = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64, requires_grad=True)
    centers = torch.tensor([[1.5], [3.0]], dtype=torch.float64, requires_grad=True)

    def product(points, centers):
        return gf.KernelMatrix(Function(_minimum), points, centers) @ torch.ones(2, dtype=torch.float64)

    assert torch.autograd.gradcheck(product, (points, centers))


def test_a_new_kernel_is_a_class():
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False, repr=False)
    class Triangle(kernels.RadialKernel):
        def profile(self, squared):
            return (1 - squared.sqrt()).clamp_min(0)

    try:
        K = gf.KernelMatrix(Triangle(2.0), np.array([[0.0], [1.0], [5.0]]))
        assert K.engine == "torch"
        np.testing.assert_allclose(K.to_dense(), [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
        assert kernels.Kernel.from_dict(Triangle(2.0).to_dict()) == Triangle(2.0)
    finally:
        del kernels.Kernel.registry["Triangle"]


def test_a_refinement_of_a_kernel_is_not_mistaken_for_it():
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False, repr=False)
    class Capped(Gaussian):
        def profile(self, squared):
            return super().profile(squared).clamp_max(0.5)

    try:
        points = np.array([[0.0], [0.1], [5.0]])
        found = gf.KernelMatrix(Capped(1.0), points).to_dense()
        np.testing.assert_allclose(found, np.minimum(Gaussian(1.0)(points), 0.5))
    finally:
        del kernels.Kernel.registry["Capped"]
