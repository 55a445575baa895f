"""The three estimators against explicit feature spaces, and the spectral algebra of what they give."""

import numpy as np
import pytest
from scipy.linalg import eigvals
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.dynamics import Koopman
from reference import dense
from reference import koopman as oracle

METHODS = ["krr", "pcr", "rrr"]
QUADRATIC = gf.kernels.Polynomial(1.0, degree=2, offset=1.0)


def of(method, rank, **options):
    return Koopman(method, rank=None if method == "krr" else rank, **options)


def wander(n=300, seed=0):
    """A noisy system that turns: complex pairs of eigenvalues."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 2))
    for t in range(n - 1):
        x, y = X[t]
        X[t + 1] = [0.8 * x + 0.5 * y - 0.1 * x * y, -0.5 * x + 0.8 * y + 0.05 * x**2] + 0.3 * rng.normal(size=2)
    return X


def by_modulus(values):
    values = np.asarray(values, dtype=complex)
    return values[np.lexsort((-values.imag, -values.real, -np.abs(values).round(9)))]


@pytest.mark.parametrize("method", METHODS)
def test_linear_system_and_linear_kernel_give_the_matrix(method):
    A = np.array([[0.9, 0.3, 0.0], [-0.3, 0.8, 0.1], [0.0, 0.0, -0.7]])
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(4):
        x = [rng.normal(size=3)]
        for _ in range(20):
            x.append(A @ x[-1])
        runs.append(np.array(x))
    model = of(method, 3, kernel="linear", penalty=0.0).fit(runs)
    X = rng.normal(size=(50, 3))
    np.testing.assert_allclose(model.predict(X), X @ A.T, atol=1e-8)
    np.testing.assert_allclose(model.predict(X, steps=7), X @ np.linalg.matrix_power(A, 7).T, atol=1e-8)
    np.testing.assert_allclose(by_modulus(model.eigenvalues_), by_modulus(np.linalg.eigvals(A)), atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("m", [4, 40])
def test_estimators_against_explicit_features(method, m):
    """(1 + x·c)² has six features: four centers span a part of them, forty all."""
    X, rank, penalty = wander(), 3, 1e-2
    model = of(method, rank, kernel=QUADRATIC, centers=X[:m], penalty=penalty).fit(X)
    phi = oracle.quadratic_features(X)
    basis = oracle.span(phi[:m])
    assert basis.shape[1] == min(m, 6)
    G = oracle.operator(method, phi[:-1], phi[1:], rank, penalty, basis)
    expected = by_modulus(np.linalg.eigvals(G))[: len(model.eigenvalues_)]
    np.testing.assert_allclose(by_modulus(model.eigenvalues_), expected, atol=1e-9)
    V = oracle.first_step(method, phi[:-1], X[1:], phi[1:], rank, penalty, basis)
    for steps in (1, 2, 5):
        forecast = phi @ np.linalg.matrix_power(G, steps - 1) @ V
        np.testing.assert_allclose(model.predict(X, steps=steps), forecast, atol=1e-9 * np.abs(X).max())


@pytest.mark.parametrize("method", METHODS)
def test_estimators_against_the_formulas_of_the_paper(method):
    X, rank, penalty = wander(), 4, 1e-3
    kernel, C = gf.kernels.Matern(2.0, nu=0.5), X[::20]
    model = of(method, rank, kernel=kernel, centers=C, penalty=penalty).fit(X)
    K, Kcc = dense(kernel, X, C), dense(kernel, C, C)
    W = oracle.paper(method, K[:-1], K[1:], Kcc, rank, penalty)
    expected = by_modulus(eigvals(W @ Kcc))[: len(model.eigenvalues_)]
    np.testing.assert_allclose(by_modulus(model.eigenvalues_), expected, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_all_frames_as_centers_are_the_exact_estimators(method):
    """With m = n the estimators are those of the literature without sketching, from K(X, X), K(X, Y) and K(Y, Y)."""
    X, rank, penalty = wander(80), 5, 1e-2
    kernel = gf.kernels.Matern(1.5, nu=0.5)
    model = of(method, rank, kernel=kernel, n_centers=1000, penalty=penalty).fit(X)
    assert len(model.centers_) == 80
    n, K, L, M = 79, dense(kernel, X[:-1], X[:-1]), dense(kernel, X[1:], X[1:]), dense(kernel, X[1:], X[:-1])
    ridge = K + n * penalty * np.eye(n)
    if method == "krr":
        W = np.linalg.inv(ridge)
    elif method == "pcr":
        values, Q = np.linalg.eigh(K)
        W = Q[:, -rank:] @ np.diag(1 / values[-rank:]) @ Q[:, -rank:].T
        model.set_params(penalty=0.0).fit(X)
    else:  # the rank that loses least of the regression: leading vectors U of K^(1/2) (K + nλ)^(-1/2) Φ_Y
        values, Q = np.linalg.eigh(K)
        half = Q @ np.diag(np.sqrt(values / (values + n * penalty))) @ Q.T
        U = np.linalg.eigh(half @ L @ half)[1][:, -rank:]
        W = Q @ np.diag(1 / np.sqrt(values * (values + n * penalty))) @ Q.T @ U @ U.T @ half
    # A = Φ_Y Wᵀ Φ_X* has the eigenvalues of Wᵀ K(X, Y) that are not zero.
    expected = by_modulus(np.linalg.eigvals(W.T @ M.T))[:4]
    np.testing.assert_allclose(by_modulus(model.eigenvalues_)[:4], expected, atol=1e-9)
    np.testing.assert_allclose(model.predict(X[:-1]), K @ W @ X[1:], atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_spectral_algebra(method):
    X = wander()
    model = of(method, 6, kernel="matern", n_centers=60, penalty=1e-3, random_state=0).fit(X)
    spectrum, G = model.spectrum_, model.operator_.matrix()
    values, R, L = spectrum.values, spectrum.left_coordinates, spectrum.right_coordinates
    lasting = np.abs(values) > 1e-6
    values, R, L = values[lasting], R[:, lasting], L[:, lasting]
    assert np.iscomplexobj(values)
    scale = np.linalg.norm(R, axis=0) * np.linalg.norm(G, 2)
    np.testing.assert_allclose(G.T @ L, L * values, atol=1e-9)  # A ψ = λ ψ
    np.testing.assert_allclose((G @ R - R * values) / scale, 0, atol=1e-9)  # A* ξ = λ̄ ξ for ξ the conjugate of R
    np.testing.assert_allclose(np.abs(R.T @ L - np.eye(len(values))) / np.linalg.norm(R, axis=0)[:, None], 0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(L, axis=0), 1, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_modes_forecast_as_powers_do(method):
    X = wander()
    model = of(method, 8, kernel="gaussian", n_centers=40, penalty=1e-3, random_state=0).fit(X)
    phi, steps = model.eigenfunctions(X[:50]), [1, 2, 3, 10, 40]
    for observable in (None, lambda x: np.sin(x).sum(1)):
        modes = model.modes(observable)
        powers = model.predict(X[:50], steps, observable=observable)
        for place, t in enumerate(steps):
            forecast = phi @ (model.eigenvalues_[:, None] ** t * modes)
            np.testing.assert_allclose(forecast.imag, 0, atol=1e-8)
            np.testing.assert_allclose(forecast.real, powers[:, place], atol=1e-8)


def test_eigenfunctions_evolve_with_their_eigenvalues():
    rng = np.random.default_rng(0)
    A = np.array([[0.8, 0.4], [-0.4, 0.8]])
    X = rng.normal(size=(100, 2))
    model = Koopman("krr", kernel="linear", penalty=0.0).fit_pairs(X, X @ A.T)
    phi, later = (model.eigenfunctions(part) for part in (X, X @ A.T))
    np.testing.assert_allclose(later, phi * model.eigenvalues_, atol=1e-10)
    assert model.eigenfunctions(X, side="right").shape == (100, 2)


def test_observables_are_functions_of_the_state():
    X = wander(2000)
    model = Koopman("krr", n_centers=200, random_state=0).fit(X)
    exact, at_centers = model.predict(X[:200]), model.predict(X[:200], observable=lambda x: x)
    assert np.sqrt(np.mean((exact - at_centers) ** 2)) < 0.1 * X.std()
    assert model.predict(X[:5], [1, 4], observable=lambda x: x[:, 0] ** 2).shape == (5, 2, 1)
    with pytest.raises(ValueError, match="a row each"):
        model.predict(X[:5], observable=lambda x: x[:3])


def test_manners_of_scikit_learn(tmp_path):
    X = wander()
    model = Koopman("rrr", n_centers=30, rank=4, random_state=0).fit(X)
    again = clone(model).fit(X)
    np.testing.assert_array_equal(again.eigenvalues_, model.eigenvalues_)
    piped = make_pipeline(StandardScaler(), Koopman("krr", n_centers=30, random_state=0)).fit(X)
    assert piped.predict(X[:3]).shape == (3, 2)
    assert piped.score(X) > 0
    score = model.score(X)
    errors = score.errors
    expected = np.sqrt(np.mean((model.predict(X[:-1]) - X[1:]) ** 2, 0))
    np.testing.assert_allclose(errors.error[0], expected, rtol=1e-10)
    np.testing.assert_allclose(errors.persistence[0], np.sqrt(np.mean((X[:-1] - X[1:]) ** 2, 0)), rtol=1e-10)
    np.testing.assert_allclose(errors.deviation[0], X[1:].std(0), rtol=1e-10)
    assert score == pytest.approx(np.mean(1 - expected**2 / X[1:].var(0)))
    model.save(tmp_path / "model.safetensors")
    loaded = gf.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(X, 5), model.predict(X, 5))
    more = wander(seed=5)
    np.testing.assert_allclose(loaded.partial_fit(more).eigenvalues_, model.partial_fit(more).eigenvalues_, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "dmd"}, "method must be"),
        ({"rank": 0}, "rank must be"),
        ({"lag": 0}, "lag must be"),
        ({"lag": 1.5}, "lag must be"),
        ({"n_centers": "many"}, "n_centers must be"),
        ({"penalty": -1.0}, "penalty must be"),
        ({"method": "krr", "rank": 3}, "does not go with"),
        ({"input_form": "cubic"}, "input_form must be"),
        ({"lag": 500}, "lag=500 is too large"),
        ({"kernel": "nothing"}, "kernel must be"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        Koopman(**options).fit(wander())


def test_bad_calls():
    X = wander()
    model = Koopman(n_centers=20, random_state=0).fit(X)
    for bad in (0, -1, 1.5, [], "two"):
        with pytest.raises(ValueError, match="steps must be"):
            model.predict(X, bad)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X * np.nan)
    with pytest.raises(ValueError, match="fitted without"):
        model.predict(X, inputs=X)
    with pytest.raises(ValueError, match="side must be"):
        model.eigenfunctions(X, side="both")
    with pytest.raises(ValueError, match="features and"):
        model.partial_fit(X[:, :1])
    with pytest.raises(ValueError, match="needs a model with inputs"):
        model.lqr(np.eye(2), np.eye(1))
