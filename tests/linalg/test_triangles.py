import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.linalg.triangles import SingularError, TrianglePair, cholesky_with_jitter, mirror

from .squares import assert_close, in_memory, on_disk
from .squares import positive as well_conditioned


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


# In a file.


METHODS = ("solve_t", "solve_t_transposed", "solve_a", "solve_a_transposed", "multiply_t", "multiply_a")


def assert_same(found, expected, vectors):
    assert found.jitter == expected.jitter
    assert_close(found.buffer, expected.upper())
    assert_close(found.diagonal_a, expected.diagonal_a)
    for name in METHODS:
        assert_close(getattr(found, name)(vectors), getattr(expected, name)(vectors))
    for one, other in zip(found.solve_both(vectors), expected.solve_both(vectors), strict=True):
        assert_close(one, other)
    for plus in (None, 2 * vectors):
        assert_close(found.solve_both_transposed(vectors, plus), expected.solve_both_transposed(vectors, plus))


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 60), tile=st.integers(4, 70), weighted=st.booleans(), centered=st.sampled_from([0.0, 0.5, 0.999])
)
def test_the_same_in_a_file(m, tile, weighted, centered):
    rng = np.random.default_rng(m)
    K, vectors = well_conditioned(m), rng.normal(size=(m, 2))
    weights = rng.uniform(0.1, 2, size=m) if weighted else None
    pairs = [TrianglePair(square, 0.3, 1e-3, weights, centered=centered) for square in (on_disk(K, tile), in_memory(K))]
    pairs[0].upper()
    assert_same(*pairs, vectors)
    for pair in pairs:
        pair.refactor(0.1)
    pairs[0].upper()
    assert_same(*pairs, vectors)


@pytest.mark.parametrize("make", [in_memory, lambda K: on_disk(K, 20)])
def test_both_solves_at_once(make):
    m = 70
    rng = np.random.default_rng(0)
    pair = TrianglePair(make(well_conditioned(m)), 0.3, 0.0)
    v, plus = rng.normal(size=(2, m, 3))
    inner, outer = pair.solve_both(v)
    assert_close(inner, pair.solve_a(v))
    assert_close(outer, pair.solve_t(pair.solve_a(v)))
    assert_close(pair.solve_both_transposed(v), pair.solve_a_transposed(pair.solve_t_transposed(v)))
    assert_close(pair.solve_both_transposed(v, plus), pair.solve_a_transposed(pair.solve_t_transposed(v) + plus))


@pytest.mark.parametrize("make", [in_memory, lambda K: on_disk(K, 20)])
@pytest.mark.parametrize("source", [np.asfortranarray, np.ascontiguousarray, in_memory, lambda G: on_disk(G, 13)])
def test_the_second_factor_from_moments_anywhere(make, source):
    m = 70
    K, G, v = well_conditioned(m), well_conditioned(m, seed=1), np.random.default_rng(2).normal(size=(m, 3))
    pair = TrianglePair(make(K), None, 0.0)
    pair.refactor_from(source(np.tril(G)), 0.2)
    assert_close(pair.multiply_a(v), np.linalg.cholesky(G + 0.2 * np.eye(m)).T @ v)
    assert_close(pair.multiply_t(v), np.linalg.cholesky(K).T @ v)


@pytest.mark.parametrize("make", [in_memory, lambda K: on_disk(K, 20)])
def test_the_second_factor_from_features_that_are_made_with_the_first(make):
    m = 70
    K, v = well_conditioned(m), np.random.default_rng(2).normal(size=(m, 3))
    blocks = [np.random.default_rng(3 + k).normal(size=(m, 40)) for k in range(3)]
    pair = TrianglePair(make(K), 0.5, 0.0)
    T = np.linalg.cholesky(K).T
    whitened = [np.linalg.solve(T.T, block) for block in blocks]
    mean = sum(Z.mean(1) for Z in whitened)[:, None] / 3

    def terms():
        for block in blocks:
            yield 1 / 120, pair.solve_t_transposed(block)
        yield -0.9, mean

    pair.refactor_from_products(terms(), 0.2)
    moments = sum(Z @ Z.T for Z in whitened) / 120 - 0.9 * mean @ mean.T
    assert_close(pair.multiply_a(v), np.linalg.cholesky(moments + 0.2 * np.eye(m)).T @ v)
    assert_close(pair.multiply_t(v), T @ v)
    pair.refactor(0.5)
    assert_close(pair.solve_a(v), TrianglePair(in_memory(K), 0.5, 0.0).solve_a(v))


@pytest.mark.parametrize("lower", [False, True])
def test_jitter_grows_in_a_file_as_in_memory(lower):
    x = np.linspace(-1, 1, 90)
    K = np.outer(x, x) + np.outer(x**2, x**2)
    matrix = on_disk(K, 20)
    jitter = cholesky_with_jitter(matrix, 0.0, lower=lower)
    assert 0 < jitter < 1e-12
    L = np.tril(matrix.array) if lower else np.triu(matrix.array).T
    np.testing.assert_allclose(L @ L.T, K, atol=1e-11)
    np.testing.assert_array_equal(np.triu(matrix.array, 1) if lower else np.tril(matrix.array, -1).T, np.triu(K, 1))


@pytest.mark.parametrize("make", [in_memory, lambda K: on_disk(K, 20)])
def test_moments_that_are_not_positive_are_refused_and_the_first_factor_is_kept(make):
    K, v = well_conditioned(70), np.ones((70, 1))
    pair = TrianglePair(make(K), 0.5, 0.0)
    with pytest.raises(SingularError, match="raise the penalty"):
        pair.refactor_from(-np.eye(70), 0.5)
    pair.refactor(0.5)
    assert_close(pair.solve_a(v), TrianglePair(in_memory(K), 0.5, 0.0).solve_a(v))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_in_memory(dtype):
    K = well_conditioned(50).astype(dtype)
    pair = TrianglePair(np.asfortranarray(K), 0.3, 0.0, centered=0.5)
    v = np.ones((50, 1), dtype=dtype)
    expected = TrianglePair(in_memory(K.astype(np.float64)), 0.3, 0.0, centered=0.5)
    assert pair.solve_a(v).dtype == pair.multiply_t(v).dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    assert_close(pair.solve_both(v)[1], expected.solve_both(v)[1], tolerance)
