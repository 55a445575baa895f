import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.linalg.strips import Strips, Triangle

DTYPES = [np.float32, np.float64]


def triangles(test):
    """Sizes, strips that need not divide them, and all triangles, with a diagonal of their own."""
    return settings(max_examples=40, deadline=None)(
        given(
            m=st.integers(0, 70),
            height=st.integers(1, 80),
            outputs=st.integers(0, 3),
            dtype=st.sampled_from(DTYPES),
            order=st.sampled_from("CF"),
            lower=st.booleans(),
            transposed=st.booleans(),
            aside=st.booleans(),
        )(test)
    )


def case(m, height, outputs, dtype, order, lower, transposed, aside):
    """Strips of a matrix, a triangle of it, the same as a dense float64 matrix, and vectors."""
    rng = np.random.default_rng(m)
    matrix = np.array(rng.normal(size=(m, m)) / max(1, m) + 2 * np.eye(m), dtype=dtype, order=order)
    diagonal = rng.uniform(1, 2, size=m).astype(dtype) if aside else None
    dense = matrix.astype(np.float64)
    if aside:
        np.fill_diagonal(dense, diagonal)
    dense = np.tril(dense) if lower else np.triu(dense)
    strips = Strips(matrix, int(np.ceil(height * m * matrix.itemsize / 0.8)) + 1)
    vectors = rng.normal(size=(m, outputs) if outputs else m).astype(dtype)
    return strips, Triangle(lower, transposed, diagonal), dense.T if transposed else dense, vectors


def assert_close(found, expected, dtype):
    assert found.dtype == dtype
    assert found.shape == expected.shape
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max(initial=1.0))


@triangles
def test_solve(**options):
    strips, triangle, dense, vectors = case(**options)
    assert_close(strips.solve(vectors, triangle), np.linalg.solve(dense, vectors), options["dtype"])


@triangles
def test_multiply(**options):
    strips, triangle, dense, vectors = case(**options)
    assert_close(strips.multiply(vectors, triangle), dense @ vectors, options["dtype"])


@triangles
def test_multiply_symmetric(**options):
    strips, triangle, dense, vectors = case(**options)
    full = dense + dense.T - np.diag(np.diag(dense))
    assert_close(strips.multiply_symmetric(vectors, triangle), full @ vectors, options["dtype"])


@triangles
def test_two_solves_while_the_matrix_is_read_once(**options):
    strips, first, dense, vectors = case(**options)
    matrix, m = strips._view.T if strips._turned else strips._view, options["m"]
    diagonal = np.linspace(1, 2, m).astype(options["dtype"])
    second = Triangle(not first.lower, not first.transposed, diagonal)
    other = np.triu(matrix, 1) if first.lower else np.tril(matrix, -1)
    other = other.astype(np.float64) + np.diag(diagonal)
    other = other.T if second.transposed else other
    x = np.linalg.solve(dense, vectors)
    for plus in (None, np.ones_like(vectors)):
        found = strips.solve_in_turn(vectors, first, second, plus)
        assert_close(found[0], x, options["dtype"])
        assert_close(found[1], np.linalg.solve(other, x + (0 if plus is None else 1)), options["dtype"])


def test_solves_that_run_in_opposite_orders_are_refused():
    with pytest.raises(ValueError, match="same order"):
        Strips(np.eye(3), 1000).solve_in_turn(np.ones(3), Triangle(lower=True), Triangle(lower=False))


def test_what_does_not_fit_is_refused():
    strips = Strips(np.eye(3), 1000)
    for call in (strips.solve, strips.multiply, strips.multiply_symmetric):
        with pytest.raises(ValueError, match=r"right must have shape \(3,\) or \(3, t\)"):
            call(np.ones(4), Triangle(lower=True))
    with pytest.raises(ValueError, match="memory_budget must be a positive"):
        Strips(np.eye(3), 0)


def test_vectors_are_not_changed(tmp_path):
    matrix = np.memmap(tmp_path / "matrix", np.float64, "w+", shape=(50, 50), order="F")
    matrix[:] = np.eye(50)
    vectors = np.arange(50.0)
    strips, triangle = Strips(matrix, 5000), Triangle(lower=True, diagonal=np.full(50, 2.0))
    np.testing.assert_array_equal(strips.solve(vectors, triangle), vectors / 2)
    np.testing.assert_array_equal(strips.multiply(vectors, triangle), vectors * 2)
    np.testing.assert_array_equal(vectors, np.arange(50.0))
    np.testing.assert_array_equal(matrix, np.eye(50))
