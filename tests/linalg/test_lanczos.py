import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from gyrfalcon.linalg.lanczos import log_quadrature


def positive(m, condition, seed=0):
    """A matrix with that condition, its smallest eigenvalue one half."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(m, m)))[0]
    return (Q * np.geomspace(0.5, 0.5 * condition, m)) @ Q.T


def signs(m, count, seed=0):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (m, count))


def log_of(A):
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.log(values)) @ vectors.T


@settings(derandomize=True, deadline=None, max_examples=30)
@given(m=st.integers(1, 25), count=st.integers(1, 4), condition=st.floats(1, 1e8), seed=st.integers(0, 99))
def test_is_the_mean_of_the_quadratic_forms_after_all_steps(m, count, condition, seed):
    A, probes = positive(m, condition, seed), np.random.default_rng(seed).normal(size=(m, count))
    expected = np.einsum("ij,ik,kj->", probes, log_of(A), probes) / count
    size = np.square(probes).sum() / count * np.log(2 * condition)
    assert abs(log_quadrature(lambda v: A @ v, probes, steps=m) - expected) <= 1e-9 * size


@pytest.mark.parametrize("m", [1, 2, 8, 32])
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6])
def test_orthogonal_signs_give_the_determinant(m, condition):
    A = positive(m, condition)
    expected = np.linalg.slogdet(A)[1]
    assert log_quadrature(lambda v: A @ v, hadamard(m).astype(float), steps=m) == pytest.approx(expected, rel=1e-9)


def test_is_the_determinant_on_average():
    A = 10 * positive(8, 1e3)
    expected = np.linalg.slogdet(A)[1]
    drawn = [log_quadrature(lambda v: A @ v, signs(8, 7, seed), steps=8) for seed in range(200)]
    error = np.std(drawn, ddof=1) / len(drawn) ** 0.5
    assert 3 * error <= 0.02 * expected  # or a wrong quadrature would not be seen
    assert abs(np.mean(drawn) - expected) <= 3 * error


@pytest.mark.parametrize("scale", [1.0, 0.25, 7.0])
def test_a_multiple_of_the_identity_ends_at_once(scale):
    calls = []
    found = log_quadrature(lambda v: calls.append(1) or scale * v, signs(30, 5), steps=30)
    assert found == pytest.approx(30 * np.log(scale), abs=1e-12)
    assert len(calls) <= 2


def test_ends_once_the_quadratures_have_settled():
    """Eigenvalues between one and two: a handful of steps out of two hundred, all that 1e-10 asks for."""
    diagonal, calls = np.linspace(1, 2, 200)[:, None], []
    found = log_quadrature(lambda v: calls.append(1) or diagonal * v, signs(200, 3), steps=200)
    assert found == pytest.approx(np.log(diagonal).sum(), rel=1e-9)  # squares of signs are one
    assert len(calls) <= 20


def test_few_steps_come_close():
    A, probes = positive(60, 1e2), signs(60, 4)
    expected = np.einsum("ij,ik,kj->", probes, log_of(A), probes) / 4
    errors = [abs(log_quadrature(lambda v: A @ v, probes, steps) - expected) for steps in (2, 5, 10, 20)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] <= 1e-5 * abs(expected)


def test_a_probe_that_is_an_eigenvector_among_others():
    """Its recurrence ends at the first step, with a length of zero, while the others go on."""
    diagonal = np.geomspace(0.1, 10, 8)[:, None]
    probes = np.stack([2.0 * np.eye(8)[3], signs(8, 1)[:, 0]], 1)
    expected = (4 * np.log(diagonal[3, 0]) + np.log(diagonal).sum()) / 2
    found = log_quadrature(lambda v: diagonal * v, probes, steps=8)
    assert found == pytest.approx(expected, abs=1e-9)


def test_repeated_eigenvalues():
    diagonal = np.repeat([0.5, 3.0], 10)[:, None]
    found = log_quadrature(lambda v: diagonal * v, signs(20, 3), steps=20)
    assert found == pytest.approx(10 * np.log(1.5), rel=1e-9)


def test_a_nearly_singular_matrix():
    diagonal = np.concatenate([[1e-14], np.linspace(1, 2, 9)])[:, None]
    found = log_quadrature(lambda v: diagonal * v, signs(10, 2), steps=10)
    assert found == pytest.approx(np.log(diagonal).sum(), rel=1e-2)


def test_a_singular_matrix_gives_a_finite_number():
    diagonal = np.array([0.0, 0.0, 1.0, 2.0])[:, None]
    assert np.isfinite(log_quadrature(lambda v: diagonal * v, signs(4, 2), steps=4))
