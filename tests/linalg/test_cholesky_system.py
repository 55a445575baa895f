import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.linalg.cholesky_system import CholeskySystem
from gyrfalcon.linalg.triangles import SingularError

from .squares import assert_close, in_memory, on_disk, positive


@settings(max_examples=30, deadline=None)
@given(m=st.integers(1, 60), tile=st.integers(4, 70), refinements=st.integers(0, 2))
def test_solve(m, tile, refinements):
    A, ridge = positive(m), np.linspace(0.1, 1, m)
    right = np.random.default_rng(m).normal(size=(m, 2))
    expected = np.linalg.solve(A + np.diag(ridge), right)
    for matrix in (in_memory(A), on_disk(A, tile)):
        system = CholeskySystem(matrix, ridge=ridge)
        assert system.jitter == 0
        assert_close(system.solve(right, refinements=refinements), expected)
        assert_close(system.solve(right[:, 0]), expected[:, 0])
        assert_close(system.multiply(expected), right)


@pytest.mark.parametrize("make", [in_memory, lambda A: on_disk(A, 20)])
def test_refinement_takes_the_error_out(make):
    A, x = positive(100), np.ones(100)
    system = CholeskySystem(make(A))
    system._factor *= 1 + 1e-4  # as if it had been rounded far more than it was
    errors = [np.abs(system.solve(A @ x, refinements=count) - x).max() for count in range(4)]
    assert errors[0] > 1e-5
    assert errors[1] < 0.01 * errors[0]
    assert errors[3] < 1e-10


@pytest.mark.parametrize("make", [in_memory, lambda A: on_disk(A, 20)])
def test_a_singular_matrix_is_factored_with_jitter_and_solved_without(make):
    x = np.linspace(-1, 1, 60)
    A = np.outer(x, x) + np.outer(x**2, x**2)
    right = A @ np.ones(60)
    system = CholeskySystem(make(A))
    assert 0 < system.jitter < 1e-12
    assert_close(A @ system.solve(right, refinements=3), right, 1e-10)


@pytest.mark.parametrize("make", [in_memory, lambda A: on_disk(A, 20)])
def test_a_matrix_that_is_not_positive_is_refused(make):
    with pytest.raises(SingularError):
        CholeskySystem(make(-positive(50)))


def test_an_array_is_taken_as_it_is():
    A = np.asfortranarray(positive(30))
    assert CholeskySystem(A).square.array is A
