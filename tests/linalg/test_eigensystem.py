import numpy as np
import pytest
import torch

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.linalg.eigensystem import top_eigensystem


def points(n=300, d=3, dtype=np.float64):
    return np.random.default_rng(0).normal(size=(n, d)).astype(dtype)


def test_converges_to_the_dense_eigensystem():
    A = KernelMatrix(gk.Laplacian(2.0), points()).to_dense()
    values, vectors = top_eigensystem(A, 20, tolerance=1e-12, max_products=40)
    exact = np.linalg.eigvalsh(A)[::-1][:20]
    np.testing.assert_allclose(values, exact, rtol=1e-9)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-4 * exact[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=1e-12)


def test_a_few_products_are_enough_for_a_preconditioner_and_never_too_large():
    A = KernelMatrix(gk.Laplacian(2.0), points()).to_dense()
    values, _ = top_eigensystem(A, 20)
    exact = np.linalg.eigvalsh(A)[::-1][:20]
    assert (values <= exact * (1 + 1e-12)).all()
    np.testing.assert_allclose(values, exact, rtol=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_matrix_serves_as_well_as_a_dense_one(dtype):
    K = KernelMatrix(gk.Gaussian(2.0), points(dtype=dtype))
    found = top_eigensystem(K, 5, tolerance=1e-6, max_products=20)[0]
    np.testing.assert_allclose(found, np.linalg.eigvalsh(K.to_dense().astype(float))[::-1][:5], rtol=1e-5)


def test_a_kernel_matrix_of_tensors():
    K = KernelMatrix(gk.Gaussian(2.0), torch.from_numpy(points()))
    assert top_eigensystem(K, 3)[1].shape == (300, 3)


def test_the_seed_decides_every_bit():
    A = KernelMatrix(gk.Laplacian(2.0), points()).to_dense()
    first, again, other = (top_eigensystem(A, 9, seed=seed)[1] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("rank", [0, 1, 7])
def test_matrices_of_low_rank(rank):
    B = np.random.default_rng(1).normal(size=(40, rank))
    values, vectors = top_eigensystem(B @ B.T, 12, tolerance=1e-12, max_products=20)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(B @ B.T)[::-1][:12], atol=1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-10)


@pytest.mark.parametrize("count", [0, 4, -1])
def test_a_bad_count_is_named(count):
    with pytest.raises(ValueError, match="count"):
        top_eigensystem(np.eye(3), count)
