"""Kernels of absolute differences in the compiled core: derivatives, wide points, refusals."""

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.kernels import ProductLaplacian
from reference import DTYPES, TOLERANCE, dense, relative_error

pytest.importorskip("gyrfalcon._native")
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
every_power = pytest.mark.parametrize("power", [1.0, 0.6])
every_scale = pytest.mark.parametrize("per_feature", [False, True], ids=["one_scale", "per_feature"])


def _draw(dtype, *shapes):
    generator = np.random.default_rng(0)
    return [(1 + generator.standard_normal(shape)).astype(dtype) for shape in shapes]


def _kernel(d, per_feature, power):
    scale = max(1.0, 0.8 * d)
    return ProductLaplacian(scale * np.linspace(0.6, 1.9, d) if per_feature else scale, power=power)


def _oracle(kernel, X, C, weights):
    """Derivatives in C and the length scale, and what they would be if no term had another's opposite sign."""
    X, C = (torch.tensor(points, dtype=torch.float64) for points in (X, C))
    scale = torch.tensor(kernel.length_scale, dtype=torch.float64)
    gaps = (X[:, None] - C) / scale
    total = gaps.abs().sum(-1)
    away = torch.where(total > 0, total, 1)
    slope = torch.where(total > 0, -kernel.power * away ** (kernel.power - 1) * torch.exp(-(away**kernel.power)), 0)
    terms = (torch.tensor(weights, dtype=torch.float64) * slope)[:, :, None]
    in_c, in_scale = -terms * gaps.sign() / scale, -terms * gaps.abs() / scale
    places = (0, 1) if scale.ndim else (0, 1, 2)
    return [(part.sum(over).numpy(), part.abs().sum(over).numpy()) for part, over in ((in_c, 0), (in_scale, places))]


@every_dtype
@every_power
@every_scale
@pytest.mark.parametrize(
    "shape", [(0, 3, 2), (1, 1, 1), (97, 33, 5), (110, 70, 6), (50, 40, 40), (20, 20, 300)], ids=str
)
def test_native_gradients_of_absolute_differences(dtype, power, per_feature, shape):
    n, m, d = shape
    kernel = _kernel(d, per_feature, power)
    X, C, left, right = _draw(dtype, (n, d), (m, d), (n, 3), (m, 3))
    C[: min(n, m) // 3] = X[: min(n, m) // 3]
    C[:, 0] = X[0, 0] if n else 0  # some features agree
    K = gf.KernelMatrix(kernel, X, C, engine="native")
    for found in (
        K.gradients(left, right, wanted=("C", "parameters")),
        K.row_gradients(slice(None), left @ right.T, wanted=("C", "parameters")),
    ):
        results = (found.C, found.parameters["length_scale"])
        for result, (value, size) in zip(results, _oracle(kernel, X, C, left @ right.T), strict=True):
            assert result.shape == value.shape
            assert np.linalg.norm(result.numpy() - value) <= 2 * TOLERANCE[dtype] * np.linalg.norm(size)


@every_dtype
@every_power
@pytest.mark.parametrize("d", [31, 33, 257, 700])
def test_native_products_of_wide_points(dtype, power, d):
    X, C, V = _draw(dtype, (50, d), (40, d), (40, 2))
    kernel = _kernel(d, False, power)
    K = gf.KernelMatrix(kernel, X, C, engine="native", cache=False)
    assert relative_error(K @ V, dense(kernel, X, C) @ V) <= TOLERANCE[dtype]


@every_dtype
@pytest.mark.parametrize("size", [1e-30, 1e-8, 1e8, 1e30])
def test_native_gradients_at_extreme_scales_stay_finite(dtype, size):
    X, C, weights = _draw(dtype, (40, 6), (20, 6), (40, 20))
    C[:5] = X[:5]
    for power in (1.0, 0.6):
        found = gf.KernelMatrix(ProductLaplacian(size, power=power), X, C).row_gradients(slice(None), weights)
        assert torch.isfinite(found.C).all()
        assert torch.isfinite(found.parameters["length_scale"]).all()


def test_sparse_points_are_refused():
    X = sparse.csr_array(np.eye(3))
    with pytest.raises(ValueError, match="does not take sparse points"):
        gf.KernelMatrix(ProductLaplacian(1.0), X)


def test_names_and_checks():
    assert gf.kernels.from_name("laplace_l1", gamma=0.5) == ProductLaplacian(2.0)
    with pytest.raises(ValueError, match="at most 1"):
        ProductLaplacian(power=1.5)
    assert ProductLaplacian([1.0, 2.0], power=0.5).tunable() == {"length_scale": "logarithmic"}
