"""Odd systems and odd data: a clear answer or a clear error, and NaN only with a reason."""

import warnings

import numpy as np
import pytest

from gyrfalcon.dynamics import DefectiveError, Koopman, RankWarning, TimescaleWarning, timescales


def linear(A, frames=30, runs=3, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(runs):
        x = [rng.normal(size=len(A))]
        for _ in range(frames - 1):
            x.append(A @ x[-1])
        out.append(np.array(x))
    return out


def exact(A, **options):
    return Koopman("krr", kernel="linear", penalty=0.0, **options).fit(linear(A))


def test_negative_and_complex_eigenvalues_have_no_time_scale():
    model = exact(np.array([[-0.5, 0.0, 0.0], [0.0, 0.8, 0.3], [0.0, -0.3, 0.8]]))
    with pytest.warns(TimescaleWarning, match="2 complex and 1 negative"):
        assert np.isnan(model.timescales()).all()
    np.testing.assert_allclose(sorted(model.eigenvalues_.real), [-0.5, 0.8, 0.8], atol=1e-8)


def test_time_scales():
    np.testing.assert_allclose(timescales(np.exp([-0.1, -0.2]), lag=5, dt=0.5), [25, 12.5])
    assert timescales([1.0, 1.001], 1).tolist() == [np.inf, np.inf]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(timescales([0.0, -0.5], 1, warn=False)).all()


def test_defective_operator():
    A = np.array([[0.9, 1.0], [0.0, 0.9]])
    model = exact(A)
    X = np.random.default_rng(1).normal(size=(10, 2))
    np.testing.assert_allclose(model.predict(X, 6), X @ np.linalg.matrix_power(A, 6).T, atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, 0.9, atol=1e-6)  # the root of the rounding of the operator
    # Rounding splits the pair, or not; either there are no modes, or they agree with the powers.
    try:
        forecast = model.eigenfunctions(X) @ (model.eigenvalues_[:, None] ** 6 * model.modes())
    except DefectiveError:
        assert model.spectrum_.condition > 1e10
    else:
        np.testing.assert_allclose(forecast, model.predict(X, 6), atol=1e-4)


def test_a_defective_core_is_refused():
    from gyrfalcon.dynamics.operator import Operator
    from gyrfalcon.dynamics.spectrum import Spectrum

    J = np.array([[0.5, 1.0], [0.0, 0.5]])
    spectrum = Spectrum.of(Operator(np.eye(2), J.T, np.eye(2)))
    np.testing.assert_allclose(spectrum.values, 0.5)
    assert np.isfinite(spectrum.left_coordinates).all()
    with pytest.raises(DefectiveError, match="predict does not need them"):
        spectrum.modes(np.eye(2))


def test_nilpotent_directions_are_not_eigenvalues():
    A = np.array([[0.9, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    model = exact(A)
    X = np.random.default_rng(1).normal(size=(10, 3))
    np.testing.assert_allclose(model.predict(X), X @ A.T, atol=1e-8)
    assert np.abs(model.eigenvalues_[0] - 0.9) < 1e-8
    assert (np.abs(model.eigenvalues_[1:]) < 1e-6).all()


@pytest.mark.parametrize("method", ["rrr", "pcr"])
def test_rank_above_what_the_data_carry(method):
    model = Koopman(method, kernel="linear", rank=8, penalty=0.0).fit(linear(np.diag([0.9, 0.5])))
    with pytest.warns(RankWarning, match="the operator has rank 2"):
        assert model.rank_ == 2
    np.testing.assert_allclose(model.eigenvalues_, [0.9, 0.5], atol=1e-8)


@pytest.mark.parametrize("method", ["rrr", "pcr", "krr"])
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_constant_runs(method, kernel):
    runs = [np.full((20, 2), 3.0), np.full((10, 2), 3.0)]
    model = Koopman(method, kernel=kernel, rank=None).fit(runs)
    np.testing.assert_allclose(model.eigenvalues_, [1.0], atol=2e-6)
    np.testing.assert_allclose(model.predict(runs[0][:2], [1, 5]), 3.0, atol=1e-4)
    score = model.score(runs)
    assert np.isfinite(score)
    assert np.isfinite(score.persistence)


@pytest.mark.parametrize("method", ["rrr", "pcr", "krr"])
def test_one_run_of_two_frames(method):
    X = np.array([[0.0, 1.0], [1.0, 0.0]])
    model = Koopman(method).fit(X)
    assert model.n_pairs_ == 1
    np.testing.assert_allclose(model.predict(X[:1]), X[1:], atol=1e-4)
    assert np.isfinite(model.eigenvalues_).all()
    with pytest.raises(ValueError, match="lag=1 is too large"):
        Koopman(method).fit(X[:1])


def test_zero_frames_have_no_span():
    with pytest.raises(ValueError, match="nothing"):
        Koopman(kernel="linear").fit(np.zeros((10, 2)))


def test_large_and_small_units():
    X = np.random.default_rng(0).normal(size=(300, 2)).cumsum(0)
    one = Koopman(n_centers=50, rank=4, random_state=0).fit(X)
    for unit in (1e-150, 1e-8, 1e8):
        other = Koopman(n_centers=50, rank=4, random_state=0).fit(X * unit)
        np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, atol=1e-6)
        np.testing.assert_allclose(other.predict(X[:5] * unit) / unit, one.predict(X[:5]), rtol=1e-5)


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        Koopman().predict(np.zeros((1, 1)))
