import numpy as np
import pytest

from gyrfalcon.linalg.triangles import SingularError, TrianglePair, cholesky_with_jitter, mirror


def positive(m, seed=0):
    B = np.random.default_rng(seed).normal(size=(m, m + 3))
    return B @ B.T


@pytest.mark.parametrize("m", [1, 5, 255, 256, 257, 600])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_factors_of_one_buffer(m, weighted):
    rng = np.random.default_rng(m)
    K, vectors = positive(m), rng.normal(size=(m, 3))
    weights = rng.uniform(0.1, 2, size=m) if weighted else None
    pair = TrianglePair(K.copy(order="F"), penalty=0.3, jitter=1e-3, weights=weights)
    T = np.linalg.cholesky(K + 1e-3 * np.eye(m)).T
    for penalty in (0.3, 0.01):
        pair.refactor(penalty, weights)
        W = np.eye(m) if weights is None else np.diag(weights)
        A = np.linalg.cholesky(T @ W @ T.T / m + penalty * np.eye(m)).T
        expected = {
            pair.solve_t: np.linalg.solve(T, vectors),
            pair.solve_t_transposed: np.linalg.solve(T.T, vectors),
            pair.solve_a: np.linalg.solve(A, vectors),
            pair.solve_a_transposed: np.linalg.solve(A.T, vectors),
            pair.multiply_t: T @ vectors,
            pair.multiply_a: A @ vectors,
        }
        for method, answer in expected.items():
            np.testing.assert_allclose(method(vectors), answer, rtol=1e-8, atol=1e-10 * np.abs(answer).max())


@pytest.mark.parametrize("m", [1, 5, 257])
def test_the_second_factor_from_a_matrix_that_is_given(m):
    K, G, vectors = positive(m), positive(m, seed=1), np.random.default_rng(2).normal(size=(m, 3))
    pair = TrianglePair(K.copy(order="F"), penalty=0.3, jitter=1e-3)
    T = np.triu(pair.upper())
    np.testing.assert_allclose(T.T @ T, K + 1e-3 * np.eye(m), rtol=1e-10, atol=1e-12)
    pair.refactor_from(np.tril(G), 0.2)
    A = np.linalg.cholesky(G + 0.2 * np.eye(m)).T
    np.testing.assert_allclose(pair.multiply_a(vectors), A @ vectors, rtol=1e-10, atol=1e-12 * np.abs(A).max())
    np.testing.assert_allclose(pair.multiply_t(pair.solve_t(vectors)), vectors, rtol=1e-8)
    pair.refactor(0.3)
    np.testing.assert_array_equal(
        pair.solve_a(vectors), TrianglePair(K.copy(order="F"), penalty=0.3, jitter=1e-3).solve_a(vectors)
    )


def test_the_matrix_itself_is_the_only_buffer():
    K = np.asfortranarray(positive(40))
    assert TrianglePair(K, 0.1, 0.0).buffer is K


def test_jitter_grows_until_a_singular_matrix_factors():
    K = np.asfortranarray(np.ones((50, 50)))
    jitter = cholesky_with_jitter(K, 0.0)
    assert 0 < jitter < 1e-12
    T = np.triu(K)
    np.testing.assert_allclose(T.T @ T, np.ones((50, 50)), atol=1e-6)


def test_a_matrix_that_cannot_be_factored_is_refused():
    with pytest.raises(SingularError):
        cholesky_with_jitter(np.asfortranarray(-np.eye(4)), 0.0)


@pytest.mark.parametrize("m", [0, 1, 300])
@pytest.mark.parametrize("from_lower", [False, True])
def test_mirror(m, from_lower):
    A = np.asfortranarray(np.random.default_rng(0).normal(size=(m, m)))
    kept = np.tril(A) if from_lower else np.triu(A)
    mirror(A, from_lower=from_lower)
    np.testing.assert_array_equal(A, kept + kept.T - np.diag(np.diag(kept)))
