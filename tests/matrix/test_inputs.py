"""Everything that is accepted as points or vectors gives what the plain array gives, and is left as it was."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian
from reference import DTYPES, TOLERANCE, dense, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
X = np.random.default_rng(0).standard_normal((40, 6)) * (np.random.default_rng(1).random((40, 6)) < 0.6)
C = X[:7] + 0.25
KERNEL = Gaussian(1.5)
D = dense(KERNEL, X, C)


def _structured(array):
    """A column block of records whose size is not a multiple of the entries'."""
    records = np.zeros(len(array), dtype=[("name", "S3"), ("point", array.dtype, array.shape[1])])
    records["point"] = array
    return records["point"]


def _frame(array):
    """Something that is not an array but can be read as one."""

    class Frame:
        def __array__(self, dtype=None, copy=None):
            return np.array(array, dtype=dtype)

    return Frame()


def _torch_csr(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls its CSR layout a beta
        return torch.from_numpy(np.array(array)).to_sparse_csr()


def _negated_view(array):
    """A tensor with PyTorch's lazy negative bit: its memory holds the opposite of its values."""
    view = torch.complex(torch.zeros(array.shape, dtype=torch.float64), -torch.from_numpy(array)).conj().imag
    assert view.is_neg()
    return view


DENSE = {
    "array": np.array,
    "tensor": torch.tensor,
    "list": np.ndarray.tolist,
    "big-endian": lambda array: array.astype(">f8"),
    "field of records": _structured,
    "anything with __array__": _frame,
    "matrix": lambda array: sparse.csr_matrix(array).todense(),
    "negated view": _negated_view,
    "transposed tensor": lambda array: torch.tensor(np.ascontiguousarray(array.T)).T,
    "tensor with gradient": lambda array: torch.tensor(array, requires_grad=True),
}
SPARSE = {
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "torch CSR": _torch_csr,
}


@pytest.mark.parametrize("kind", DENSE | SPARSE)
@pytest.mark.parametrize("side", ["X", "C"])
def test_kinds_of_points(kind, side):
    make = (DENSE | SPARSE)[kind]
    given = {"X": X, "C": C} | {side: make({"X": X, "C": C}[side])}
    K = gf.KernelMatrix(KERNEL, given["X"], given["C"])
    assert K.engine == ("sparse" if side == "X" and kind in SPARSE else "native")
    V, W = np.linspace(1, 2, 14).reshape(7, 2), np.linspace(1, 2, 40)
    assert relative_error(K.to_dense(), D) <= TOLERANCE[np.float64]
    assert relative_error(K @ V, D @ V) <= TOLERANCE[np.float64]
    assert relative_error(K.T @ W, D.T @ W) <= TOLERANCE[np.float64]


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("dtype", [*DTYPES, np.int8, np.uint16, bool], ids=lambda dtype: dtype.__name__)
def test_whole_numbers_are_read_as_float64(engine, dtype):
    points = np.random.default_rng(0).integers(0, 2, (9, 3)).astype(dtype)
    for given in (points, torch.from_numpy(points) if dtype is not np.uint16 else points):
        K = gf.KernelMatrix(KERNEL, given, engine=engine)
        assert K.dtype == (torch.float32 if dtype is np.float32 else torch.float64)
        assert relative_error(K @ np.arange(9), dense(KERNEL, points, points) @ np.arange(9)) <= 2e-6


@pytest.mark.parametrize("kind", ["list", "tensor", "anything with __array__", "whole numbers", "bool", "expanded"])
def test_kinds_of_vectors(kind):
    V = np.ones((7, 3))
    given = {
        "list": V.tolist(),
        "tensor": torch.tensor(V),
        "anything with __array__": _frame(V),
        "whole numbers": V.astype(int),
        "bool": V.astype(bool),
        "expanded": torch.ones(1, 1, dtype=torch.float64).expand(7, 3),
    }[kind]
    for engine in ("native", "torch"):
        found = gf.KernelMatrix(KERNEL, X, C, engine=engine) @ given
        assert relative_error(found, D @ V) <= TOLERANCE[np.float64]


def test_one_dimensional_tensors_from_the_left():
    K = gf.KernelMatrix(KERNEL, X, C)
    W, V = torch.ones(40, dtype=torch.float64), torch.ones(7, dtype=torch.float64)
    assert relative_error(W @ K, D.sum(0)) <= TOLERANCE[np.float64]
    assert relative_error(V @ K.T, D.sum(1)) <= TOLERANCE[np.float64]


def test_tensors_in_give_tensors_out_for_sparse_layouts_too():
    K = gf.KernelMatrix(KERNEL, _torch_csr(X), torch.tensor(C))
    assert isinstance(K @ np.ones(7), torch.Tensor)
    assert isinstance(gf.KernelMatrix(KERNEL, _torch_csr(X), _torch_csr(C)) @ np.ones(7), torch.Tensor)


def _untidy():
    """A CSR matrix with unsorted, repeated and explicitly zero entries, and the array it stands for."""
    data = np.array([1.0, 2.0, 3.0, 0.0, -1.0, 4.0, -4.0])
    indices, starts = np.array([2, 0, 2, 1, 0, 1, 1]), np.array([0, 3, 5, 5, 7])
    matrix = sparse.csr_array((data, indices, starts), shape=(4, 3))
    return matrix, np.array([[2.0, 0.0, 4.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("centers", ["sparse", "dense"])
def test_untidy_sparse_points(centers):
    matrix, array = _untidy()
    K = gf.KernelMatrix(KERNEL, matrix, _untidy()[0] if centers == "sparse" else array)
    assert relative_error(K.to_dense(), dense(KERNEL, array, array)) <= TOLERANCE[np.float64]


def test_sparse_inputs_are_left_as_they_were():
    matrix, _ = _untidy()
    before = [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]
    gf.KernelMatrix(KERNEL, matrix) @ np.ones(4)
    for part, kept in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(part, kept)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_dense_inputs_are_left_as_they_were(engine):
    given = [X.copy(), C.copy(), np.ones((7, 2)), np.ones((40, 2)), np.ones(40)]
    before = [array.copy() for array in given]
    points, centers, V, W, weights = given
    K = gf.KernelMatrix(KERNEL, points, centers, engine=engine)
    K @ V, K.T @ W, K.gram_mv(V, weights), K.gram(weights), K.to_dense(), K.diag(), K.gradients(W, V)
    for array, kept in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_very_many_features():
    d, generator = 100_000_000, np.random.default_rng(0)
    indices = generator.choice(d, (30, 20)).astype(np.int64)
    indices[1] = indices[0]
    points = sparse.csr_array((generator.standard_normal(600), indices.ravel(), np.arange(0, 601, 20)), shape=(30, d))
    used, places = np.unique(indices, return_inverse=True)
    packed = sparse.csr_array((points.data, places.ravel(), points.indptr), shape=(30, len(used))).toarray()
    k = Gaussian(5.0)
    K = gf.KernelMatrix(k, points, points[:8])
    assert relative_error(K.to_dense(), dense(k, packed, packed[:8])) <= TOLERANCE[np.float64]


def test_centers_default_to_the_points():
    K = gf.KernelMatrix(KERNEL, X)
    assert K.shape == (40, 40)
    assert (K.diag() == 1).all()
    assert relative_error(K.to_dense(), dense(KERNEL, X, X)) <= TOLERANCE[np.float64]
