"""Inputs: affine and bilinear systems are found again, and the regulator is that of the Riccati equation."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from gyrfalcon.dynamics import Koopman

A = np.array([[1.1, 0.2], [-0.1, 0.9]])
B = np.array([[0.0], [1.0]])
N = np.array([[0.1, -0.2], [0.0, 0.3]])


def system(bilinear=False, runs=20, frames=12, seed=0):
    rng = np.random.default_rng(seed)
    states, inputs = [], []
    for _ in range(runs):
        x, u = [rng.normal(size=2)], rng.normal(size=(frames, 1))
        for t in range(frames - 1):
            x.append((A + (N * u[t] if bilinear else 0)) @ x[-1] + B @ u[t])
        states.append(np.array(x))
        inputs.append(u)
    return states, inputs


@pytest.mark.parametrize("form", ["affine", "bilinear"])
@pytest.mark.parametrize("method", ["krr", "rrr", "pcr"])
def test_linear_systems_with_inputs_are_found(form, method):
    X, U = system(form == "bilinear")
    rank = None if method == "krr" else 2 if method == "rrr" else 3 if form == "affine" else 5
    model = Koopman(method, kernel="linear", penalty=0.0, rank=rank, input_form=form).fit(X, inputs=U)
    truth, given = system(form == "bilinear", seed=1)
    starts, acts = np.array([x[0] for x in truth]), np.array(given)
    forecast = model.predict(starts, [1, 5, 11], inputs=acts)
    for place, step in enumerate((1, 5, 11)):
        np.testing.assert_allclose(forecast[:, place], [x[step] for x in truth], atol=1e-7)
    np.testing.assert_allclose(
        np.sort_complex(model.eigenvalues_.astype(complex)),
        np.sort_complex(np.linalg.eigvals(A).astype(complex)),
        atol=1e-8,
    )
    errors = model.errors(truth, [1, 3], inputs=given)
    np.testing.assert_allclose(errors.error, 0, atol=1e-7)
    assert errors.count == (20 * 11, 20 * 9)


def test_pairs_with_inputs():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(50, 2)), rng.normal(size=(50, 1))
    Y = X @ A.T + U @ B.T
    model = Koopman("krr", kernel="linear", penalty=0.0).fit_pairs(X, Y, inputs=U)
    np.testing.assert_allclose(model.predict(X, inputs=U), Y, atol=1e-9)


def test_units_of_inputs_do_not_matter():
    X, U = system()
    one = Koopman("krr", n_centers=30, penalty=1e-4, random_state=0).fit(X, inputs=U)
    two = Koopman("krr", n_centers=30, penalty=1e-4, random_state=0).fit(X, inputs=[1e6 * u for u in U])
    np.testing.assert_allclose(
        one.predict(X[0], inputs=U[0]), two.predict(X[0], inputs=1e6 * U[0]), rtol=1e-6, atol=1e-8
    )


def test_regulator_of_a_linear_system_is_that_of_riccati():
    X, U = system()
    model = Koopman("krr", kernel="linear", penalty=0.0).fit(X, inputs=U)
    Q, R = np.diag([1.0, 0.5]), np.array([[0.3]])
    regulator = model.lqr(Q, R)
    P = solve_discrete_are(A, B, Q, R)
    gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    x = np.random.default_rng(1).normal(size=(10, 2))
    np.testing.assert_allclose(regulator(x), -x @ gain.T, atol=1e-7)
    assert np.abs(regulator.eigenvalues).max() < 1


def test_regulator_holds_a_pendulum_upright():
    """Gravity pushes away from the upright position; the features are Gaussian."""
    dt, rng = 0.05, np.random.default_rng(0)

    def step(x, u):
        rate = x[..., 1] + dt * (3 * np.sin(x[..., 0]) - 0.1 * x[..., 1] + u)
        return np.stack([x[..., 0] + dt * rate, rate], -1)

    runs, inputs = [], []
    for _ in range(200):
        x, u = [rng.uniform(-1, 1, size=2)], rng.uniform(-4, 4, size=(15, 1))
        for t in range(14):
            x.append(step(x[-1], u[t, 0]))
        runs.append(np.array(x))
        inputs.append(u)
    options = {"n_centers": 100, "penalty": 1e-8, "random_state": 0}
    full = Koopman("krr", length_scale=3.0, **options).fit(runs, inputs=inputs)
    costs = np.diag([10.0, 1.0]), np.eye(1)
    with pytest.raises(ValueError, match="smaller rank, or give a horizon"):
        full.lqr(*costs)
    assert full.lqr(*costs, horizon=7).steps == 7
    model = Koopman("rrr", length_scale=6.0, rank=3, **options).fit(runs, inputs=inputs)
    regulator = model.lqr(*costs, target=np.zeros(2))
    assert np.abs(regulator.eigenvalues).max() < 1.001
    x = np.array([[0.5, 0.0], [-0.4, 0.5]])
    free = x.copy()
    for _ in range(200):
        x, free = step(x, np.clip(regulator(x)[:, 0], -4, 4)), step(free, np.zeros(2))
    assert np.abs(x).max() < 0.05
    assert np.abs(free).max() > 1


def test_bad_inputs():
    X, U = system()
    model = Koopman("krr", kernel="linear").fit(X, inputs=U)
    with pytest.raises(ValueError, match="inputs are missing"):
        model.predict(X[0])
    with pytest.raises(ValueError, match="inputs must have shape"):
        model.predict(X[0], 3, inputs=U[0])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X[0], inputs=U[0] * np.nan)
    with pytest.raises(ValueError, match="0 inputs, the fit had 2 and 1"):
        model.errors(X)
    with pytest.raises(ValueError, match="Q must be"):
        model.lqr(np.eye(3), np.eye(1))
    with pytest.raises(ValueError, match="R must be positive definite"):
        model.lqr(np.eye(2), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="target must have"):
        model.lqr(np.eye(2), np.eye(1), target=np.zeros(3))
    with pytest.raises(ValueError, match="horizon must be"):
        model.lqr(np.eye(2), np.eye(1), horizon=0)
    bilinear = Koopman("krr", kernel="linear", input_form="bilinear").fit(X, inputs=U)
    with pytest.raises(ValueError, match="affine"):
        bilinear.lqr(np.eye(2), np.eye(1))
