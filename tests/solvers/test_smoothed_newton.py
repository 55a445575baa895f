"""Losses with kinks against the dual, SVC and SVR; what is proved, stopped, resumed and chosen."""

import numpy as np
import pytest
import torch
from sklearn.svm import SVC, SVR

import gyrfalcon as gf
from gyrfalcon import losses
from gyrfalcon.solvers import Risk, SmoothedNewton, choose, solve
from reference import kernels as oracle
from reference import kinks

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = gf.kernels.Matern(1.5, nu=1.5)
KINKED = [losses.Hinge(), losses.Absolute(), losses.Quantile()]
EVERY = pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)


def data(loss, n=70, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    truth = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_t(2, size=n)
    if isinstance(loss, losses.Hinge):
        labels = np.searchsorted(np.quantile(truth, np.arange(1, classes) / classes), truth)
        return X, losses.Simplex(classes).encode(labels)
    return X, truth[:, None]


def posed(loss, X, Y, penalty, C=None, weights=None, intercept=False):
    K = gf.KernelMatrix(KERNEL, torch.from_numpy(X), None if C is None else torch.from_numpy(C))
    w = None if weights is None else torch.from_numpy(weights[:, None])
    return Risk(K, torch.from_numpy(Y), penalty, loss, w, intercept)


def risk_of(problem, solution, X, C):
    """The risk of a solution from dense matrices."""
    beta = solution.coefficients.numpy()
    F = torch.from_numpy(oracle.dense(KERNEL, X, C) @ beta + solution.intercept.numpy())
    norm = np.vdot(beta, oracle.dense(KERNEL, C, C) @ beta)
    return problem.empirical(F) + problem.penalty * norm


@EVERY
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_reaches_the_minimum_that_the_dual_proves(loss, weighted, penalty):
    X, Y = data(loss)
    C = X[:25].copy()
    weights = np.random.default_rng(1).integers(1, 4, size=len(X)).astype(float) if weighted else None
    Knm, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    minimum, dual = kinks.minimum(loss.name, Knm @ np.linalg.solve(Kmm, Knm.T), Y, penalty, weights)
    assert minimum - dual <= 1e-6 * minimum
    problem = posed(loss, X, Y, penalty, C, weights)
    solution = solve(problem, SmoothedNewton())
    found = risk_of(problem, solution, X, C)
    assert solution.record.converged
    assert sum(solution.record.objective) == pytest.approx(found, rel=1e-6)
    assert minimum * (1 - 1e-6) <= found <= minimum * (1 + 1e-3)
    closer = solve(problem, SmoothedNewton(tolerance=1e-6))
    assert risk_of(problem, closer, X, C) <= minimum * (1 + 1e-5)


def test_several_classes_on_a_simplex():
    loss = losses.Hinge()
    X, Y = data(loss, classes=4)
    minimum, dual = kinks.minimum("hinge", oracle.dense(KERNEL, X, X), Y, 1e-2)
    assert minimum - dual <= 1e-6 * minimum
    problem = posed(loss, X, Y, 1e-2)
    found = risk_of(problem, solve(problem), X, X)
    assert minimum * (1 - 1e-6) <= found <= minimum * (1 + 1e-3)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Absolute()], ids=lambda loss: loss.name)
def test_agrees_with_scikit_learn_with_an_intercept(loss):
    X, Y = data(loss, n=150)
    penalty = 1e-3
    peer = SVC if isinstance(loss, losses.Hinge) else lambda **more: SVR(epsilon=0.0, **more)
    K = oracle.dense(KERNEL, X, X)
    machine = peer(C=1 / (2 * penalty * len(X)), kernel="precomputed", tol=1e-8).fit(K, Y[:, 0])
    alpha = np.zeros((len(X), 1))
    alpha[machine.support_] = machine.dual_coef_.T
    problem = posed(loss, X, Y, penalty, intercept=True)
    F = torch.from_numpy(K @ alpha + machine.intercept_)
    minimum = problem.empirical(F) + penalty * np.vdot(alpha, K @ alpha)
    found = risk_of(problem, solve(problem), X, X)
    assert minimum * (1 - 1e-6) <= found <= minimum * (1 + 1e-3)


@EVERY
def test_resumes_bit_for_bit_from_any_width(loss):
    problem = posed(loss, *data(loss), 1e-3, intercept=True)
    snapshots = []
    whole = solve(problem, SmoothedNewton(), keep=lambda take: snapshots.append(take()))
    assert len({facts["width"] for facts, _ in snapshots}) > 2
    for snapshot in (snapshots[0], snapshots[len(snapshots) // 2], snapshots[-1]):
        resumed = solve(problem, SmoothedNewton(), resume=snapshot)
        assert resumed.coefficients.equal(whole.coefficients)
        assert resumed.intercept.equal(whole.intercept)
        assert resumed.record.residuals == whole.record.residuals
        assert resumed.record.objective_history == whole.record.objective_history


@EVERY
def test_callbacks_starts_and_limits(loss):
    problem = posed(loss, *data(loss), 1e-3, intercept=True)
    seen = []
    whole = solve(problem, SmoothedNewton(), callback=lambda step: seen.append(step))
    assert [step.iteration for step in seen] == list(range(1, whole.record.iterations + 1))
    assert len(whole.record.residuals) == len(whole.record.objective_history) == whole.record.iterations + 1
    assert np.all(np.diff(whole.record.residuals) <= 0)
    warm = solve(problem, SmoothedNewton(), start=(whole.coefficients, whole.intercept))
    assert warm.record.converged
    assert warm.record.iterations < whole.record.iterations
    short = solve(problem, SmoothedNewton(max_iterations=4))
    assert (short.record.iterations, short.record.converged) == (4, False)
    assert "stopped after 4 iterations" in short.record.message
    assert solve(problem, SmoothedNewton(), callback=lambda step: True).record.message == "stopped by the callback"


def test_constant_targets_and_a_penalty_of_zero():
    X, Y = data(losses.Absolute())
    flat = solve(posed(losses.Absolute(), X, np.zeros_like(Y), 1e-3, intercept=True))
    assert flat.record.converged
    np.testing.assert_allclose(flat.coefficients, 0)
    free = posed(losses.Absolute(), X, Y, 0.0, X[:10].copy(), intercept=True)
    assert solve(free).coefficients.isfinite().all()


def test_is_the_default_for_losses_that_name_their_kink():
    class Tent(losses.ResidualLoss):
        name, smooth = "tent", False

        def phi(self, u):
            return u.abs()

        def slope(self, u):
            return u.sign()

        def bend(self, u):
            return torch.zeros_like(u)

    X, Y = data(losses.Absolute())
    assert choose(posed(losses.Absolute(), X, Y, 1e-3))[0] == SmoothedNewton()
    assert choose(posed(Tent(), X, Y, 1e-3))[0].name == "sgd"
    with pytest.raises(ValueError, match=r"smoothed_newton.*tent"):
        solve(posed(Tent(), X, Y, 1e-3), "smoothed_newton")
    with pytest.raises(ValueError, match=r"newton.*absolute.*take 'smoothed_newton'"):
        solve(posed(losses.Absolute(), X, Y, 1e-3), "newton")


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_quantiles_cover_what_they_say_on_new_rows(scale):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 2))
    y = scale * (np.sin(2 * X[:, 0]) + (0.2 + 0.3 * np.abs(X[:, 1])) * rng.normal(size=3000))
    train, new = slice(0, 1500), slice(1500, None)
    for level in (0.1, 0.5, 0.9):
        model = gf.KernelRegressor(loss=losses.Quantile(level), random_state=0, verbose=False).fit(X[train], y[train])
        assert model.record_.converged
        below = y[new] <= model.predict(X[new])
        assert abs(below.mean() - level) <= 0.03  # two standard deviations of a share of 1,500 rows
        for wide in (np.abs(X[new, 1]) < 1, np.abs(X[new, 1]) >= 1):
            assert abs(below[wide].mean() - level) <= 0.06


def test_hinge_predicts_as_well_as_the_logistic_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=3000))
    scores = {}
    for loss in ("hinge", "logistic"):
        model = gf.KernelClassifier(loss=loss, random_state=0, verbose=False).fit(X[:1500], y[:1500])
        scores[loss] = model.score(X[1500:], y[1500:])
    assert scores["hinge"] >= scores["logistic"] - 0.015
