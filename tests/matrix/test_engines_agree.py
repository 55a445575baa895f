"""Properties of products that hold for any shape, stride and kernel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.matrix import sparse_engine
from reference import DTYPES, ENGINES, KERNELS, RADIAL, TOLERANCE, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
lightly = settings(derandomize=True, deadline=None, max_examples=40, database=None)

sizes = st.integers(1, 70)
features = st.sampled_from([1, 2, 3, 5, 16, 17, 30, 130, 300])
dtypes = st.sampled_from(DTYPES)
kernel_names = st.sampled_from(sorted(KERNELS))
seeds = st.integers(0, 2**31)
engines = pytest.mark.parametrize("engine", ["native", "torch", "sparse"])


def _draw(seed, dtype, *shapes):
    """Numbers around one: of both signs, and with sums that do not cancel."""
    generator = np.random.default_rng(seed)
    return [(1 + generator.standard_normal(shape)).astype(dtype) for shape in shapes]


def _matrix(kernel, engine, X, C, **options):
    route = ENGINES[engine]
    return gf.KernelMatrix(kernel, route.X(X), route.C(C), **route.options, **options)


def _kernel(name, d):
    return KERNELS[name](d, 1.0, 1.0)


@lightly
@given(kernel_names, dtypes, sizes, sizes, features, st.integers(0, 9), seeds)
def test_native_equals_torch(name, dtype, n, m, d, t, seed):
    X, C, V, W, weights = _draw(seed, dtype, (n, d), (m, d), (m, t), (n, t), (n,))
    native, torch = (_matrix(_kernel(name, d), engine, X, C) for engine in ("native", "torch"))
    for found, expected in (
        (native @ V, torch @ V),
        (native.T @ W, torch.T @ W),
        (native.gram_mv(V, weights), torch.gram_mv(V, weights)),
        (native.gram(), torch.gram()),
        (native.to_dense(), torch.to_dense()),
    ):
        assert relative_error(found, expected.astype(np.float64)) <= 2 * TOLERANCE[dtype]


@engines
@lightly
@given(kernel_names, dtypes, sizes, sizes, st.sampled_from([2, 20]), st.floats(-3, 3), seeds)
def test_linear_in_the_vectors(engine, name, dtype, n, m, d, factor, seed):
    kernel = _kernel(name, d)
    if engine == "sparse" and not sparse_engine.serves(kernel):
        return
    X, C, U, V, P, Q = _draw(seed, dtype, (n, d), (m, d), (m, 2), (m, 2), (n, 2), (n, 2))
    K, factor = _matrix(kernel, engine, X, C), dtype(factor)
    for multiply, left, right in ((K.__matmul__, U, V), (K.T.__matmul__, P, Q), (K.gram_mv, U, V)):
        apart = [multiply(left).astype(np.float64), factor * multiply(right).astype(np.float64)]
        size = sum(np.linalg.norm(part) for part in apart)
        assert np.linalg.norm(multiply(left + factor * right) - sum(apart)) <= 2 * TOLERANCE[dtype] * size


@engines
@lightly
@given(kernel_names, dtypes, sizes, sizes, st.sampled_from([2, 20]), seeds)
def test_permuted_rows_give_permuted_products(engine, name, dtype, n, m, d, seed):
    kernel = _kernel(name, d)
    if engine == "sparse" and not sparse_engine.serves(kernel):
        return
    X, C, V, W = _draw(seed, dtype, (n, d), (m, d), (m, 2), (n, 2))
    order = np.random.default_rng(seed).permutation(n)
    K, permuted = _matrix(kernel, engine, X, C), _matrix(kernel, engine, X[order], C)
    assert relative_error(permuted @ V, (K @ V)[order].astype(np.float64)) <= 2 * TOLERANCE[dtype]
    assert relative_error(permuted.T @ W[order], (K.T @ W).astype(np.float64)) <= 2 * TOLERANCE[dtype]


@engines
@lightly
@given(kernel_names, dtypes, sizes, sizes, features, seeds)
def test_transposed_is_the_matrix_of_exchanged_points(engine, name, dtype, n, m, d, seed):
    kernel = _kernel(name, d)
    if engine == "sparse" and not sparse_engine.serves(kernel):
        return
    X, C, W = _draw(seed, dtype, (n, d), (m, d), (n, 3))
    K, exchanged = _matrix(kernel, engine, X, C), _matrix(kernel, engine, C, X)
    expected = exchanged.to_dense().astype(np.float64)
    assert relative_error(K.T.to_dense(), expected) <= 2 * TOLERANCE[dtype]
    assert relative_error(K.T @ W, (exchanged @ W).astype(np.float64)) <= 2 * TOLERANCE[dtype]


@lightly
@given(st.sampled_from(sorted(RADIAL)), dtypes, sizes, sizes, features, st.integers(-30, 30), seeds)
def test_native_is_the_same_to_the_bit_when_everything_is_doubled(name, dtype, n, m, d, power, seed):
    X, C, V = _draw(seed, dtype, (n, d), (m, d), (m, 2))
    scale = dtype(2.0) ** power
    kernel, scaled = _kernel(name, d), KERNELS[name](d, 2.0**power, 1.0)
    K, stretched = _matrix(kernel, "native", X, C), _matrix(scaled, "native", X * scale, C * scale)
    np.testing.assert_array_equal(stretched.to_dense(), K.to_dense())
    np.testing.assert_array_equal(stretched @ V, K @ V)


@engines
@lightly
@given(kernel_names, dtypes, sizes, sizes, st.sampled_from([2, 20]), st.sampled_from([1, 100, 3_000, 40_000]), seeds)
def test_budget_changes_nothing(engine, name, dtype, n, m, d, budget, seed):
    kernel = _kernel(name, d)
    if engine == "sparse" and not sparse_engine.serves(kernel):
        return
    X, C, V, W, weights = _draw(seed, dtype, (n, d), (m, d), (m, 2), (n, 2), (n,))
    K, tight = _matrix(kernel, engine, X, C), _matrix(kernel, engine, X, C, memory_budget=budget)
    for found, expected in (
        (tight @ V, K @ V),
        (tight.T @ W, K.T @ W),
        (tight.gram_mv(V, weights), K.gram_mv(V, weights)),
        (tight.gram(weights), K.gram(weights)),
    ):
        assert relative_error(found, expected.astype(np.float64)) <= 2 * TOLERANCE[dtype]


@st.composite
def _views(draw, rows, columns, dtype):
    """A matrix of the shape asked for, somewhere in a larger store, with strides of any sign and zero."""
    steps = [draw(st.sampled_from([-3, -2, -1, 0, 1, 1, 2, 3])) for _ in range(2)]
    extents = [max(0, count - 1) * abs(step) + 1 for count, step in zip((rows, columns), steps, strict=True)]
    outer = [draw(st.integers(0, 3)) for _ in range(2)]
    generator = np.random.default_rng(draw(seeds))
    shape = [extent + 2 * margin for extent, margin in zip(extents, outer, strict=True)]
    store = (1 + generator.standard_normal(shape)).astype(dtype)
    if draw(st.booleans()):
        store = np.asfortranarray(store)
    corner = store[tuple(slice(margin, margin + extent) for margin, extent in zip(outer, extents, strict=True))]
    if steps[0] < 0:
        corner = corner[::-1]
    if steps[1] < 0:
        corner = corner[:, ::-1]
    strides = [stride * abs(step) for stride, step in zip(corner.strides, steps, strict=True)]
    return np.lib.stride_tricks.as_strided(corner, (rows, columns), strides, writeable=draw(st.booleans()))


@settings(lightly, max_examples=100)
@given(st.data(), kernel_names, dtypes, st.integers(0, 60), st.integers(0, 40), st.integers(1, 20), st.integers(0, 6))
def test_native_is_the_same_to_the_bit_for_any_strides(data, name, dtype, n, m, d, t):
    shapes = {"X": (n, d), "C": (m, d), "V": (m, t), "W": (n, t), "weights": (n, 1)}
    laid = {key: data.draw(_views(*shape, dtype), label=key) for key, shape in shapes.items()}
    packed = {key: np.ascontiguousarray(view) for key, view in laid.items()}
    results = []
    for arrays in (laid, packed):
        X, C, V, W, weights = arrays.values()
        K = gf.KernelMatrix(_kernel(name, d), X, C, engine="native")
        results.append((K @ V, K.T @ W, K.gram_mv(V, weights), K.gram(weights), K.to_dense(), K.block(slice(1, 5))))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(laid["X"], packed["X"])
