"""The distinct rows, against NumPy's, in any order and of any kind."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from gyrfalcon.centers import distinct
from gyrfalcon.data.points import as_points

pytestmark = pytest.mark.usefixtures("one_thread")

VALUES = st.sampled_from([-2.0, -0.5, -0.0, 0.0, 1.0, 3.0])
MATRICES = st.tuples(st.integers(1, 12), st.integers(0, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=VALUES)
)
KINDS = {"array": lambda X: X, "tensor": torch.from_numpy, "csr": sparse.csr_array}


def with_stored_zeros(X):
    """CSR in which every entry is stored, zeros of both signs too."""
    n, d = X.shape
    return sparse.csr_array((X.ravel(), np.tile(np.arange(d), n), np.arange(n + 1) * d), shape=X.shape)


KINDS["csr_with_zeros"] = with_stored_zeros


def numbers(rows):
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(X=MATRICES, data=st.data())
def test_agrees_with_numpy_and_ignores_the_order_to_the_last_bit(kind, X, data):
    w = data.draw(arrays(np.float64, len(X), elements=st.sampled_from([0.0, 0.1, 0.2, 0.7, 1e16])))
    w[data.draw(st.integers(0, len(X) - 1))] = 0.3
    expected, inverse = np.unique(X[w > 0] + 0.0, axis=0, return_inverse=True)
    permutation = np.array(data.draw(st.permutations(range(len(X)))))

    rows, group = distinct(as_points(KINDS[kind](X), "X"), w)
    np.testing.assert_array_equal(numbers(rows), expected)
    assert not np.signbit(numbers(rows)[numbers(rows) == 0]).any()
    np.testing.assert_array_equal(group[w > 0], inverse.ravel())
    assert (group[w == 0] == -1).all()

    again, group_again = distinct(as_points(KINDS[kind](X[permutation].copy()), "X"), w[permutation])
    np.testing.assert_array_equal(numbers(again), numbers(rows))
    np.testing.assert_array_equal(group_again, group[permutation])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kind_and_type_are_kept(kind, dtype):
    X = as_points(KINDS[kind](np.array([[1, 0, 2], [0, 0, 3], [1, 0, 2]], dtype=dtype)), "X")
    rows, group = distinct(X)
    assert type(rows) is type(X)
    assert rows.dtype == X.dtype
    np.testing.assert_array_equal(numbers(rows), [[0, 0, 3], [1, 0, 2]])
    np.testing.assert_array_equal(group, [1, 0, 1])


def test_sparse_rows_of_a_hundred_million_features_are_not_made_dense():
    random = np.random.default_rng(0)
    narrow = random.integers(-1, 2, size=(50, 40)).astype(float)[random.integers(0, 50, size=1000)]
    places = np.sort(random.choice(10**8, 40, replace=False, shuffle=False))
    packed = sparse.csr_array(narrow)
    rows, group = distinct(sparse.csr_array((packed.data, places[packed.indices], packed.indptr), shape=(1000, 10**8)))
    expected, counts = np.unique(narrow, axis=0, return_counts=True)
    assert rows.shape == (len(expected), 10**8)
    unpacked = (rows.data, np.searchsorted(places, rows.indices), rows.indptr)
    np.testing.assert_array_equal(sparse.csr_array(unpacked, shape=expected.shape).toarray(), expected)
    np.testing.assert_array_equal(np.bincount(group), counts)


def test_x_is_left_as_it_was():
    X = with_stored_zeros(np.array([[0.0, 1.0], [0.0, 1.0]]))
    distinct(X)
    assert X.nnz == 4
