"""Kernels of features that are mapped one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Kernel, Matern, ProductLaplacian, Warped, inputs_of
from gyrfalcon.matrix.native_engine import NativeEngine
from reference import dense, relative_error

INNER = (Gaussian([1.0, 2.0, 0.5]), Matern(1.5, nu=1.5), ProductLaplacian([1.0, 3.0, 2.0]))
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def _warped(inner: Kernel) -> Warped:
    knots = [[-2.0, 0.0, 1.0, 1.0], [-1.0, 0.5, 2.0, 100.0]]
    values = [[-1.0, 0.0, 3.0, 3.0], [0.0, 1.0, 1.5, 2.0]]
    return Warped(inner, [0, 2], knots, values)


def _plainly(kernel: Warped, X):
    mapped = np.array(X, dtype=np.float64)
    for j, knots, values in zip(kernel.columns, kernel.knots, kernel.values, strict=True):
        mapped[:, j] = np.interp(mapped[:, j], knots, values)
    return mapped


def _points(dtype, rows=40, seed=0):
    return np.random.default_rng(seed).standard_t(2, size=(rows, 3)).astype(dtype)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_products_are_those_of_the_inner_kernel_on_mapped_points(inner, dtype, engine):
    kernel, X, C = _warped(inner), _points(dtype), _points(dtype, 17, 1)
    expected = dense(inner, _plainly(kernel, X), _plainly(kernel, C))
    K = gf.KernelMatrix(kernel, X, C, engine=engine)
    assert K.engine == engine
    assert relative_error(K.to_dense(), expected) < TOLERANCE[dtype]
    v = np.random.default_rng(2).normal(size=(17, 2)).astype(dtype)
    assert relative_error(K @ v, expected @ v) < 10 * TOLERANCE[dtype]
    assert relative_error(K.wide_block(slice(5, 9)), expected[5:9]) < 1e-12
    assert relative_error(K.with_points(gf.data.Points(X[:5])).to_dense(), expected[:5]) < TOLERANCE[dtype]
    assert relative_error(K.square.to_dense(), dense(inner, *[_plainly(kernel, C)] * 2)) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_a_sum_of_kernels_of_mapped_and_of_plain_points(dtype, engine):
    left, right = _warped(0.5 * INNER[1]), 0.5 * INNER[2]
    kernel, X, C = left + right, _points(dtype), _points(dtype, 17, 1)
    expected = dense(left.kernel, _plainly(left, X), _plainly(left, C)) + dense(right, X, C)
    K = gf.KernelMatrix(kernel, X, C, engine=engine)
    assert K.engine == engine
    v, w = (np.random.default_rng(2).normal(size=(rows, 2)).astype(dtype) for rows in (17, 40))
    for found, wanted in (
        (K.to_dense(), expected),
        (K @ v, expected @ v),
        (K.T @ w, expected.T @ w),
        (K.gram_mv(v), expected.T @ (expected @ v)),
        (K.gram_mv(v, w[:, 0], dtype=torch.float64), expected.T @ (w[:, :1] * (expected @ v))),
        (K.gram(), expected.T @ expected),
        (K.with_points(gf.data.Points(X[:5])).to_dense(), expected[:5]),
    ):
        assert relative_error(found, wanted) < 10 * TOLERANCE[dtype]
    assert relative_error(K.wide_block(slice(5, 9)), expected[5:9]) < 1e-12
    assert list(K.gradients(w[:, :1], np.ones((17, 1), dtype)).parameters) == list(kernel.parameters())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_that_see_the_points_in_different_ways_are_one_pass(dtype, monkeypatch):
    """Each entry of a sum of kernels on plain points and of two maps is made once for a gram product."""
    other = Warped(INNER[0], [1], [[-1.0, 1.0]], [[0.0, 0.5]])
    kernel = 0.3 * _warped(INNER[1]) * INNER[0] + other + 0.2 * _warped(INNER[2])
    X, C = _points(dtype), _points(dtype, 17, 1)
    K = gf.KernelMatrix(kernel, X, C, cache=False)
    tasks, run = [], NativeEngine._run

    def counted(self, task, *rest):
        tasks.append((task, self.C.shape[1]))
        return run(self, task, *rest)

    monkeypatch.setattr(NativeEngine, "_run", counted)
    found = K.gram_mv(np.ones(17, dtype))
    assert tasks == [("multiply_gram", 9)]  # three features, as they are and as two maps make them
    expected = gf.KernelMatrix(kernel, X.astype(np.float64), C.astype(np.float64), engine="torch").to_dense()
    assert relative_error(found, expected.T @ expected.sum(1)) < 10 * TOLERANCE[dtype]
    assert relative_error(K.square.to_dense(), kernel(C.astype(np.float64))) < TOLERANCE[dtype]
    assert relative_error(K.wide_block(slice(3, 30)), expected[3:30]) < 1e-12
    assert relative_error(K.rows(np.array([5, 2])).wide_block(slice(0, 2)), expected[[5, 2]]) < 1e-12


def test_kernels_that_share_a_map_share_its_points():
    kernel = _warped(INNER[0]) + _warped(INNER[2])
    K = gf.KernelMatrix(kernel, _points(np.float64), engine="native")
    assert K._current()._core.C.shape[1] == 3


@pytest.mark.parametrize("inner", INNER)
def test_derivatives_go_through_the_map(inner):
    kernel, X, C = _warped(inner), _points(np.float64), _points(np.float64, 17, 1)
    left, right = np.random.default_rng(3).normal(size=(2, 57))[:, :40].T[:, :1], np.ones((17, 1))
    found = gf.KernelMatrix(kernel, X, C, engine="native").gradients(left, right)
    points, centers = (torch.from_numpy(p).requires_grad_() for p in (X, C))
    total = (torch.from_numpy(left) * kernel.block(points, centers)).sum()
    expected = torch.autograd.grad(total, (points, centers))
    for mine, theirs in zip((found.X, found.C), expected, strict=True):
        assert relative_error(mine.numpy(), theirs.numpy()) < 1e-11
    assert list(found.parameters) == ["kernel.length_scale"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_maps_are_monotone_and_the_same_for_tensors(numbers):
    kernel = _warped(Gaussian())
    X = np.repeat(np.sort(np.array(numbers))[:, None], 3, axis=1)
    mapped = kernel.warp(X)
    assert (np.diff(mapped, axis=0) >= 0).all()
    np.testing.assert_array_equal(mapped[:, 1], X[:, 1])
    np.testing.assert_allclose(kernel.warp(torch.from_numpy(X)).numpy(), mapped, rtol=1e-12, atol=1e-12)


def test_it_is_a_value_that_survives_json():
    kernel = _warped(Matern(2.0, nu=1.5))
    again = Kernel.from_dict(kernel.to_dict())
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert kernel.tunable() == {"kernel.length_scale": "logarithmic"}
    assert repr(kernel) == "Warped(Matern(length_scale=2, nu=1.5), 2 features)"
    assert inputs_of(Gaussian(), "as they are") == "as they are"


def test_what_contains_a_rough_kernel_is_rough():
    rough, smooth = Matern(2.0, nu=1.5), Gaussian()
    assert all(kernel.rough for kernel in (rough, ProductLaplacian(), _warped(rough), 0.5 * rough + smooth))
    assert not any(kernel.rough for kernel in (smooth, Matern(2.0, nu=2.5), _warped(smooth), smooth + smooth))


def test_bad_maps_are_refused():
    for columns, knots, values, words in (
        ([1, 0], np.eye(2), np.eye(2), "columns must be"),
        ([], np.empty((0, 2)), np.empty((0, 2)), "columns must be"),
        ([0], [[1.0, 0.0]], [[0.0, 1.0]], "knots must be finite and in increasing order"),
        ([0], [[0.0, 1.0]], [[0.0, np.nan]], "values must be finite"),
        ([0], [[0.0]], [[0.0]], "knots must have shape"),
        ([0], [[0.0, 1.0]], [[0.0, 1.0, 2.0]], "knots has 2 columns but values has 3"),
    ):
        with pytest.raises(ValueError, match=words):
            Warped(Gaussian(), columns, knots, values)
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        Warped("rbf", [0], [[0.0, 1.0]], [[0.0, 1.0]])
    with pytest.raises(ValueError, match="columns names feature 2 but the points have 2 features"):
        _warped(Gaussian()).warp(np.zeros((1, 2)))
