"""Solvers on random features, and all numbers of features and penalties at once, against dense ridge regression."""

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.data import ArraySource
from gyrfalcon.solvers import LeastSquares, RandomFeaturePath, Risk, plot_surface, random_feature_path
from gyrfalcon.solvers.stopping import Split
from reference.solving import Rule, direct, eigenpro, exact, falkon, kernel_cg, newton, nu_method, nytro

SIZES, PENALTIES = [2, 9, 40, 80], [1e-6, 1e-4, 1e-2]


def data(n=250, d=3, t=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[np.abs(X) < 0.3] = 0
    Y = np.sin(X[:, :1] * np.arange(1, t + 1)) + 2 + 0.3 * rng.normal(size=(n, t))
    return X, Y, rng.integers(0, 4, size=n).astype(float)


def features(X, D=80):
    return gf.RandomFeatures("gaussian", D, length_scale=1.5, random_state=0).fit(X)


def posed(Z, Y, penalty=0.0, weights=None, intercept=False):
    column = None if weights is None else torch.from_numpy(weights)[:, None]
    return LeastSquares(Z, torch.from_numpy(Y), penalty, column, intercept)


def ridge(Z, Y, penalty, weights=None, intercept=False):
    """Coefficients and intercept of min Σ w (y - Zβ - b)² / Σ w + penalty ‖β‖²."""
    w = np.ones(len(Z)) if weights is None else weights
    z, y = (np.average(A, axis=0, weights=w) if intercept else 0.0 for A in (Z, Y))
    centered = Z - z
    left = centered.T @ (w[:, None] * centered) / w.sum() + penalty * np.eye(Z.shape[1])
    beta = np.linalg.solve(left, centered.T @ (w[:, None] * (Y - y)) / w.sum())
    return beta, y - z @ beta if intercept else np.zeros(Y.shape[1])


def gap(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


SOLVERS = {
    "direct": (direct, 1e-10),
    "falkon": (lambda p: falkon(p, tolerance=1e-14, max_iterations=300), 1e-6),
    "nytro": (lambda p: nytro(p, Rule(validation=None, max_iterations=3000)), 1e-6),
    "nu_method": (lambda p: nu_method(p, Rule(validation=None, max_iterations=300)), 1e-3),
    "kernel_cg": (lambda p: kernel_cg(p, Rule(validation=None, max_iterations=60)), 1e-6),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", [False, True])
def test_solvers_take_features_for_centers(solver, intercept):
    X, Y, w = data()
    Z = features(X)
    solve, tolerance = SOLVERS[solver]
    found = solve(posed(Z.matrix(X), Y, 1e-2, w, intercept))
    beta, b = ridge(Z.transform(X), Y, 1e-2, w, intercept)
    assert gap(found.coefficients.numpy(), beta) <= tolerance
    np.testing.assert_allclose(found.intercept, b, atol=10 * tolerance)


@pytest.mark.parametrize("kind", [sparse.csr_array, lambda X: ArraySource(X, dtype=X.dtype), torch.from_numpy])
def test_features_of_every_kind_of_points(kind):
    X, Y, _ = data()
    Z = features(X)
    found = direct(posed(Z.matrix(kind(X)), Y, 1e-4))
    assert gap(found.coefficients.numpy(), ridge(Z.transform(X), Y, 1e-4)[0]) <= 1e-9


def test_other_losses_take_features():
    X, Y, _ = data(t=1)
    Z = features(X)
    matrix, values = Z.matrix(X), Z.transform(X)
    solution = newton(Risk(matrix, torch.from_numpy(Y), 1e-2, gf.losses.Robust()), tolerance=1e-10)
    beta = solution.coefficients.numpy()
    gradient = -values.T @ np.tanh(Y - values @ beta) / len(X) + 2 * 1e-2 * beta
    assert np.abs(gradient).max() <= 1e-6


@pytest.mark.parametrize(("weighted", "intercept"), [(False, False), (True, True)])
def test_solutions_are_those_of_separate_solves(weighted, intercept):
    X, Y, w = data()
    w = w if weighted else None
    matrix, Z = features(X).matrix(X), features(X).transform(X)
    path = random_feature_path(posed(matrix, Y, 0.0, w, intercept), sizes=SIZES, penalties=PENALTIES)
    for size in SIZES:
        for penalty in PENALTIES:
            few = gf.KernelMatrix(matrix.kernel, X, matrix.centers[:size])
            alone, found = direct(posed(few, Y, penalty, w, intercept)), path.solution(size, penalty)
            assert gap(found.coefficients.numpy(), alone.coefficients.numpy()) <= 1e-8
            assert gap(found.coefficients.numpy(), ridge(Z[:, :size], Y, penalty, w, intercept)[0]) <= 1e-8
            np.testing.assert_allclose(found.intercept, alone.intercept, atol=1e-8)


@pytest.mark.parametrize("validation", [0.3, 4])
def test_errors_are_those_of_solves_that_never_saw_the_rows(validation):
    X, Y, w = data()
    Z = features(X).transform(X)
    problem = posed(features(X).matrix(X), Y, 0.0, w, True)
    path = random_feature_path(problem, sizes=SIZES, penalties=PENALTIES, validation=validation, random_state=2)
    split = Split.of(len(X), validation, 2)
    for row, size in enumerate(SIZES):
        for column, penalty in enumerate(PENALTIES):
            found = []
            for part in split.held:
                seen, held = split.labels != part, split.labels == part
                beta, b = ridge(Z[seen, :size], Y[seen], penalty, w[seen], True)
                left = Y[held] - Z[held, :size] @ beta - b
                found.append(np.average(left**2, axis=0, weights=w[held]).mean())
            assert path.errors[row, column] == pytest.approx(np.mean(found), rel=1e-8)
            assert path.deviations[row, column] == pytest.approx(np.std(found), rel=1e-6, abs=1e-12)


def test_another_amplitude_is_another_penalty():
    X, Y, _ = data()
    matrix = features(X).matrix(X)
    path = random_feature_path(posed(matrix, Y), sizes=SIZES, penalties=PENALTIES)
    louder = gf.KernelMatrix(gf.kernels.Fourier(amplitude=20**-0.5), X, matrix.centers[:20])
    one, other = path.solution(20, 1e-4), direct(posed(louder, Y, 1e-4 * 80 / 20))
    few = gf.KernelMatrix(matrix.kernel, X, matrix.centers[:20])
    np.testing.assert_allclose(few @ one.coefficients.numpy(), louder @ other.coefficients.numpy(), atol=1e-10)


def test_the_path_is_chosen_from_and_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, Y, _ = data()
    path = random_feature_path(posed(features(X).matrix(X), Y), sizes=SIZES, penalties=PENALTIES)
    assert isinstance(path, RandomFeaturePath)
    assert path.best[0] in SIZES
    assert path.smallest(0.05)[0] <= path.best[0]
    ax = plot_surface(path)
    assert ax.get_xlabel() == "number of random features"
    assert ax.get_lines()[0].get_xdata()[0] == path.best[0]
    pyplot.close("all")


def test_what_does_not_go_together_is_named():
    X, Y, _ = data()
    with pytest.raises(ValueError, match="has centers, not features"):
        random_feature_path(posed(gf.KernelMatrix("gaussian", X, X[:20]), Y))
    with pytest.raises(ValueError, match="has features for columns"):
        exact(posed(gf.KernelMatrix(gf.kernels.Fourier(), X), Y, 1e-3))
    with pytest.raises(ValueError, match="positive definite"):
        eigenpro(posed(features(X).matrix(X), Y, 1e-3))
    with pytest.raises(ValueError, match="sizes must be integers between 1 and the 80 random features"):
        random_feature_path(posed(features(X).matrix(X), Y), sizes=[81])
