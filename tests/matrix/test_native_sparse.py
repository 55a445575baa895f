"""Sparse products in the compiled core: against dense formulas, and refusals before any memory is touched."""

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from gyrfalcon.matrix import native_engine
from reference import DTYPES, TOLERANCE, dense, relative_error

native = pytest.importorskip("gyrfalcon._native")
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
KERNELS = {
    "gaussian": Gaussian(0.7),
    "per_feature": Laplacian(np.linspace(0.5, 2.0, 40)),
    "expression": Polynomial() + 0.3 * Matern(2.0) * Linear(3.0),
}


def _points(n, d, dtype, seed=0, density=0.2):
    random = np.random.default_rng(seed)
    return sparse.csr_array((random.random((n, d)) * (random.random((n, d)) < density)).astype(dtype))


@every_dtype
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("centers", ["sparse", "dense"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_native_sparse_products(dtype, kernel, centers, index):
    kernel = KERNELS[kernel]
    X = _points(131, 40, dtype)
    C = sparse.csr_array(sparse.vstack([X[:20], _points(37, 40, dtype, 1)]))  # some distances are zero
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    D = dense(kernel, X.toarray(), C.toarray())
    K = gf.KernelMatrix(kernel, X, C if centers == "sparse" else C.toarray(), cache=False)
    V, W = (np.random.default_rng(2).standard_normal((rows, 3)).astype(dtype) for rows in (57, 131))
    weights = np.linspace(0, 1, 131).astype(dtype)
    for found, expected in (
        (K @ V, D @ V),
        (K.T @ W, D.T @ W),
        (K.gram_mv(V, weights), D.T @ (weights[:, None] * (D @ V))),
        (K.to_dense(), D),
    ):
        assert relative_error(found, expected) <= TOLERANCE[dtype]


@every_dtype
def test_native_sparse_and_scipy_agree_where_points_nearly_coincide(dtype, monkeypatch):
    X = _points(60, 300, dtype, density=0.1)
    C = X.copy()
    C.data = C.data * dtype(1 + (1e-6 if dtype is np.float32 else 1e-12))
    kernel = Laplacian(1e-6 if dtype is np.float32 else 1e-12)
    fast = gf.KernelMatrix(kernel, X, C, cache=False).to_dense()
    monkeypatch.setattr(native_engine, "core", None)
    slow = gf.KernelMatrix(kernel, X, C, cache=False).to_dense()
    assert 0 < np.diag(fast).min() < np.diag(fast).max() < 1
    assert relative_error(fast, slow.astype(float)) <= TOLERANCE[dtype]


def test_native_sparse_of_very_many_features():
    features = 10**8
    X = sparse.csr_array(([1.0, 2.0, 3.0], [5, features - 1, 77], [0, 2, 2, 3]), shape=(3, features))
    K = gf.KernelMatrix(Gaussian(1.0), X, X[[0, 2]], cache=False)
    np.testing.assert_allclose(K.to_dense(), np.exp([[0, -7], [-2.5, -4.5], [-7, 0]]), rtol=1e-14)


@every_dtype
def test_native_sparse_threads_change_no_bit(dtype):
    X = _points(1500, 200, dtype)
    K = gf.KernelMatrix(Matern(2.0), X, X[:70], cache=False)
    V, W = np.ones((70, 2), dtype), np.ones((1500, 2), dtype)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append((K @ V, K.T @ W, K.gram_mv(V)))
    finally:
        torch.set_num_threads(before)
    for many in found[1:]:
        assert all((one == other).all() for one, other in zip(many, found[0], strict=True))


def _call(**changes):
    ints = {"dtype": np.int32}
    given = {
        "task": "multiply",
        "leaves": [("linear", 1.0, 0.0, 0.0, 0)],
        "steps": [("leaf", 0, 1.0)],
        "features": 3,
        "x_ends": np.array([0, 2, 2, 3], **ints),
        "x_features": np.array([0, 2, 1], **ints),
        "x_values": np.array([1.0, 2.0, 3.0]),
        "c": (np.array([0, 1, 3]), np.array([2, 0, 1]), np.array([1.0, 1.0, 1.0])),
        "dense_c": None,
        "scales": [np.ones(1)],
        "v": np.ones((2, 1)),
        "weights": None,
        "out": np.full((3, 1), np.nan),
        "sums": None,
        "threads": 2,
        "partial_bytes": 1 << 20,
    } | changes
    native.run_sparse(**given)
    return given["out"]


def test_native_sparse_takes_what_fits():
    assert _call().ravel().tolist() == [3.0, 0.0, 3.0]
    C = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert _call(c=None, dense_c=C, scales=[np.ones(3)]).ravel().tolist() == [3.0, 0.0, 3.0]
    none = np.zeros(1, np.int32)
    assert _call(x_ends=none, out=np.empty((0, 1))).shape == (0, 1)
    assert (_call(c=(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)), v=np.ones((0, 1))) == 0).all()


REFUSED = {
    "no ends": {"x_ends": np.zeros(0, np.int32)},
    "falling ends": {"x_ends": np.array([0, 3, 2, 3], np.int32)},
    "negative ends": {"x_ends": np.array([-1, 2, 2, 3], np.int32)},
    "ends beyond the values": {"x_ends": np.array([0, 2, 2, 4], np.int32)},
    "huge ends": {"x_ends": np.array([0, 2, 2, 2**31 - 1], np.int32)},
    "negative feature": {"x_features": np.array([0, -1, 1], np.int32)},
    "feature beyond the columns": {"x_features": np.array([0, 3, 1], np.int32)},
    "fewer values than features": {"x_values": np.ones(2)},
    "indices of two types": {"x_ends": np.array([0, 2, 2, 3])},
    "values with steps between": {"x_values": np.ones(6)[::2]},
    "no centers": {"c": None},
    "centers twice": {"dense_c": np.ones((2, 3))},
    "falling ends of centers": {"c": (np.array([0, 4, 3]), np.array([2, 0, 1]), np.ones(3))},
    "feature of a center beyond": {"c": (np.array([0, 1, 3]), np.array([2, 0, 7]), np.ones(3))},
    "centers too narrow": {"c": None, "dense_c": np.ones((2, 2))},
    "no scales": {"scales": []},
    "too few scales": {"scales": [np.ones(2)]},
    "scales that are not there": {"leaves": [("linear", 1.0, 0.0, 0.0, 1)]},
    "unknown family": {"leaves": [("quartic", 1.0, 0.0, 0.0, 0)]},
    "gain is NaN": {"leaves": [("linear", np.nan, 0.0, 0.0, 0)]},
    "unknown task": {"task": "divide"},
    "V too short": {"v": np.ones((1, 1))},
    "out too short": {"out": np.ones((2, 1))},
    "no steps": {"steps": []},
}


@pytest.mark.parametrize("case", REFUSED)
def test_native_sparse_refuses(case):
    with pytest.raises((ValueError, TypeError)):
        _call(**REFUSED[case])
