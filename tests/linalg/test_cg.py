import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.linalg.cg import conjugate_gradients


def spd(m, condition, rng):
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    return (Q * np.geomspace(1, condition, m)) @ Q.T


@settings(derandomize=True, deadline=None, max_examples=30)
@given(m=st.integers(1, 40), t=st.integers(0, 4), seed=st.integers(0, 99))
def test_agrees_with_a_dense_solve(m, t, seed):
    """A relative residual of 10⁻¹¹ is an error of at most 10⁻¹¹ ‖A⁻¹‖ ‖b‖; the least eigenvalue is one."""
    rng = np.random.default_rng(seed)
    A, b = spd(m, 1e3, rng), rng.normal(size=(m, t))
    result = conjugate_gradients(lambda v: A @ v, b, tolerance=1e-11, max_iterations=10 * m + 20)
    error = np.linalg.norm(result.solution - np.linalg.solve(A, b), axis=0)
    assert (error <= 2e-11 * np.linalg.norm(b, axis=0)).all()
    assert result.converged.all()


def test_converged_columns_have_the_residual_they_claim():
    """The value of an earlier iterate, which counts once rounding takes over, may seem as low within rounding."""
    rng = np.random.default_rng(0)
    A, b = spd(32, 1e3, rng), rng.normal(size=(32, 1000))
    result = conjugate_gradients(lambda v: A @ v, b, tolerance=1e-11, max_iterations=400)
    assert result.converged.all()
    assert (np.linalg.norm(b - A @ result.solution, axis=0) <= 2e-11 * np.linalg.norm(b, axis=0)).all()


def test_a_column_that_is_done_stays_as_it_is():
    diagonal, b = np.geomspace(1, 1e4, 30)[:, None], np.random.default_rng(0).normal(size=(30, 2))
    b[:, 0] = 0
    b[7, 0] = 1.0  # an eigenvector: one step
    result = conjugate_gradients(lambda v: diagonal * v, b, tolerance=1e-6)
    assert result.iterations > 10
    np.testing.assert_allclose(result.solution[:, 0], b[:, 0] / diagonal[:, 0], rtol=1e-14)
    assert (np.linalg.norm(diagonal * result.solution - b, axis=0) <= 1.01e-6 * np.linalg.norm(b, axis=0)).all()


def test_zero_columns_and_exact_starts_cost_nothing():
    A, calls = np.diag([1.0, 2.0, 3.0]), []
    result = conjugate_gradients(lambda v: calls.append(1) or A @ v, np.zeros((3, 2)))
    assert not calls
    assert result.iterations == 0
    start = np.ones((3, 1))
    result = conjugate_gradients(lambda v: A @ v, A @ start, start=start)
    assert result.iterations == 0
    np.testing.assert_array_equal(result.solution, start)


def test_stops_when_the_operator_is_not_positive():
    A = np.diag([1.0, -1.0])
    result = conjugate_gradients(lambda v: A @ v, np.array([[1.0], [2.0]]), max_iterations=1000)
    assert result.iterations < 10
    assert np.isfinite(result.solution).all()
    assert not result.converged.any()


def test_replacing_the_residual_reports_the_true_one():
    rng = np.random.default_rng(1)
    A, b = spd(50, 1e8, rng).astype(np.float32), rng.normal(size=(50, 1))
    operator = lambda v: (A @ v.astype(np.float32)).astype(np.float64)  # noqa: E731
    result = conjugate_gradients(operator, b, tolerance=1e-12, max_iterations=200, replace_every=200)
    true = np.linalg.norm(b - operator(result.solution)) / np.linalg.norm(b)
    assert result.residuals[-1, 0] == np.float64(true)


def test_the_callback_ends_the_solve():
    A = np.diag(np.geomspace(1, 1e6, 40))
    seen = []
    result = conjugate_gradients(
        lambda v: A @ v, np.ones((40, 1)), tolerance=0, callback=lambda i, x, r, v: seen.append((i, r[0])) or i == 3
    )
    assert result.iterations == 3
    assert [i for i, _ in seen] == [1, 2, 3]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), spread=st.floats(0.05, 0.6))
def test_near_the_identity_the_residual_tells_when_to_stop(seed, spread):
    """Soon, and not before the value is as near its minimum as was asked."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    A = (Q * (1 + spread * rng.uniform(-1, 1, size=30))) @ Q.T
    b = rng.normal(size=(30, 2))
    least = -np.einsum("ij,ij->j", b, np.linalg.solve(A, b))
    zero = -1.1 * least
    result = conjugate_gradients(
        lambda v: A @ v, b, tolerance=1e-3, values_at_zero=zero, near_identity=True, max_iterations=50
    )
    assert result.converged.all()
    assert (result.values[-1] - (zero + least) <= 1e-3 * result.values[-1]).all()
    assert result.iterations <= 10


def test_a_direction_of_negative_curvature_is_rounding():
    """Only rounding makes one, so that whoever asked in float32 learns to ask again in float64."""
    A, b = np.diag([1.0, 1e-3, -1e-6]), np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    result = conjugate_gradients(lambda v: A @ v, b, tolerance=1e-8, max_iterations=50)
    assert result.rounded.tolist() == [True, False]
    assert result.converged.tolist() == [False, True]


def test_a_right_side_of_zeros_is_solved_without_rounding():
    result = conjugate_gradients(lambda v: v, np.zeros((3, 1)), tolerance=0.0)
    assert result.converged.all()
    assert not result.rounded.any()
