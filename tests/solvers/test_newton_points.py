"""Newton's method where every point is a center, against a dense float64 one and against that of the centers."""

import numpy as np
import pytest
import torch

from gyrfalcon import KernelClassifier, KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.losses import LOSSES, OneHot, Simplex, Softmax
from gyrfalcon.solvers import Newton, Risk, SmoothedNewton, solve
from gyrfalcon.solvers.newton import points
from gyrfalcon.solvers.newton import state as newton_state
from reference import kernels as oracle
from reference import relative_error
from reference.losses import DenseRisk
from reference.solving import newton

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = gk.Matern(1.5, nu=1.5)
CASES = [
    ("squared", None, 2),
    ("robust", None, 1),
    ("robust", None, 3),
    ("logistic", Simplex, 2),
    ("logistic", Simplex, 4),
    ("exponential", Simplex, 3),
    ("softmax", OneHot, 2),
    ("softmax", OneHot, 4),
]


def data(coding, k, n=70, d=3, seed=0):
    """Points, targets of k classes or outputs, weights of which some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = np.sin(1.5 * X[:, :1] * np.arange(1, k + 1)) + X[:, 1:2] * np.linspace(-1, 1, k)
    if coding is None:
        Y = scores + 0.3 * rng.standard_t(2, size=scores.shape) + 1
    else:
        Y = coding(k).encode(np.argmax(2 * scores + rng.gumbel(size=scores.shape), axis=1))
    return X, Y, rng.integers(0, 4, size=n).astype(float)


def risk(X, Y, penalty, name, weights=None, intercept=True):
    weights = None if weights is None else torch.from_numpy(weights)[:, None]
    return Risk(
        KernelMatrix(KERNEL, torch.from_numpy(X)), torch.from_numpy(Y), penalty, LOSSES[name], weights, intercept
    )


def predictions(solution, X):
    return oracle.dense(KERNEL, X, X) @ solution.coefficients.numpy() + solution.intercept.numpy()


def distance(name, a, b):
    if name == "softmax":  # a constant added to all outputs changes no probability
        a, b = (F - F.mean(1, keepdims=True) for F in (a, b))
    return relative_error(a, b)


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_dense_newton(name, coding, k, weighted, intercept):
    X, Y, w = data(coding, k)
    w = w if weighted else None
    solution = newton(risk(X, Y, 1e-4, name, w, intercept), tolerance=1e-8)
    assert solution.record.converged, solution.record.message
    K = oracle.dense(KERNEL, X, X)
    dense = DenseRisk(name, K, K, Y, 1e-4, w, intercept)
    found, alpha = predictions(solution, X), solution.coefficients.numpy()
    assert distance(name, found, dense.minimize()) <= 1e-6
    objective = dense.w @ dense.formula(found, Y)[0] + 1e-4 * np.vdot(alpha, K @ alpha)
    assert solution.record.objective_history[-1] == pytest.approx(objective, rel=1e-9)
    assert sum(solution.record.objective) == pytest.approx(solution.record.objective_history[-1], rel=1e-12)
    if intercept:
        assert np.abs(alpha.sum(0)).max() <= 1e-6 * np.abs(alpha).max()


@pytest.mark.parametrize("penalty", [1e-2, 1e-6, 1e-9, 0.0])
@pytest.mark.parametrize(("name", "coding", "k"), [("robust", None, 1), ("softmax", OneHot, 4)])
def test_agrees_with_the_coordinates_of_the_centers(name, coding, k, penalty, monkeypatch):
    X, Y, w = data(coding, k)
    if penalty == 0 and coding is not None:
        pytest.skip("separable classes have no minimum without a penalty")
    found = newton(risk(X, Y, penalty, name, w), tolerance=1e-10)
    monkeypatch.setattr(newton_state, "DENSE_BYTES", 1e12)
    centers = newton(risk(X, Y, penalty, name, w), tolerance=1e-10)
    assert found.record.converged, found.record.message
    # The tolerance bounds the gradient, and the objective is within |gradient|² / 4 penalty of its minimum. Where the
    # penalty leaves f free to move, only objectives agree.
    assert sum(found.record.objective) <= sum(centers.record.objective) * (1 + 1e-8) + 1e-20
    if penalty >= 1e-6:
        present = w > 0
        assert distance(name, predictions(found, X)[present], predictions(centers, X)[present]) <= 1e-5


@pytest.mark.parametrize("least_ridge", [0.0, np.inf])
def test_the_type_of_the_factor_does_not_show(least_ridge, monkeypatch):
    """Of float32 only the directions are made; a factor that is too rough for them is made again in float64."""
    X, Y, w = data(OneHot, 4)
    expected = newton(risk(X, Y, 1e-9, "softmax", w), tolerance=1e-9)
    monkeypatch.setattr(points, "SINGLE_RIDGE", least_ridge)
    found = newton(risk(X, Y, 1e-9, "softmax", w), tolerance=1e-9)
    assert found.record.converged, found.record.message
    assert distance("softmax", predictions(found, X), predictions(expected, X)) <= 1e-6


@pytest.mark.parametrize("first_penalty", [0.0, 1e-4])
def test_rounding_of_a_norm_is_not_taken_for_convergence(first_penalty, monkeypatch):
    """Many separable classes: after the first step the gradient is nearly orthogonal to its image."""
    monkeypatch.setattr(points, "FIRST_PENALTY", first_penalty)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(150, 20))
    labels = rng.integers(150, size=600)
    X = torch.from_numpy(means[labels] + 0.5 * rng.normal(size=(600, 20)))
    Y = torch.from_numpy(np.eye(150)[labels])
    found = newton(Risk(KernelMatrix(gk.Gaussian(4.0), X), Y, 1e-7, Softmax(), None, True))
    assert found.record.converged
    assert found.record.objective_history[-1] < 1e-2


def test_float32_points_end_at_the_float64_answer():
    X, Y, _ = data(OneHot, 4)
    X = X.astype(np.float32).astype(float)
    wide = newton(risk(X, Y, 1e-5, "softmax"))
    K = KernelMatrix(KERNEL, torch.from_numpy(X).float())
    narrow = newton(Risk(K, torch.from_numpy(Y).float(), 1e-5, Softmax(), None, True))
    assert narrow.record.converged
    assert distance("softmax", predictions(narrow, X), predictions(wide, X)) <= 1e-6


@pytest.mark.parametrize("same_curvatures", [0.0, 0.3, 10.0])
def test_a_resumed_solve_ends_with_the_same_bits(same_curvatures, monkeypatch):
    monkeypatch.setattr(points, "SAME_CURVATURES", same_curvatures)
    X, Y, w = data(OneHot, 4)
    snapshots = []
    whole = newton(risk(X, Y, 1e-6, "softmax", w), keep=lambda take: snapshots.append(take()))
    assert len(snapshots) > 3
    for snapshot in snapshots:
        resumed = newton(risk(X, Y, 1e-6, "softmax", w), resume=snapshot)
        assert resumed.coefficients.equal(whole.coefficients)
        assert resumed.intercept.equal(whole.intercept)
        assert resumed.record.residuals == whole.record.residuals
        assert resumed.record.passes == whole.record.passes


def test_a_start_is_taken_even_if_its_coefficients_do_not_add_up_to_zero():
    X, Y, w = data(Simplex, 2)
    known = newton(risk(X, Y, 1e-4, "logistic", w), tolerance=1e-8)
    warm = newton(risk(X, Y, 1e-4, "logistic", w), start=(known.coefficients, known.intercept))
    assert warm.record.iterations <= 1
    odd = newton(risk(X, Y, 1e-4, "logistic", w), tolerance=1e-8, start=(known.coefficients + 1, known.intercept))
    assert relative_error(predictions(odd, X), predictions(known, X)) <= 1e-6
    with pytest.raises(ValueError, match=r"^start must have shape"):
        newton(risk(X, Y, 1e-4, "logistic", w), start=known.coefficients[:-1])


def test_one_state_answers_for_other_targets_and_penalties():
    X, Y, _ = data(OneHot, 4)
    problem = risk(X, Y, 1e-4, "softmax")
    solver = Newton(tolerance=1e-9)
    state = solver.prepare(problem.K, None, True)
    for targets, penalty in ((problem.Y, 1e-4), (problem.Y.flip(1), 1e-3), (problem.Y, 1e-5)):
        found = solver.solve(state, targets, penalty, loss=Softmax())
        fresh = solve(Risk(problem.K, targets, penalty, Softmax(), None, True), solver)
        assert found.coefficients.equal(fresh.coefficients)


@pytest.mark.parametrize("name", ["hinge", "absolute"])
def test_losses_with_kinks_reach_their_gap(name):
    X, Y, w = data(Simplex if name == "hinge" else None, 2 if name == "hinge" else 1)
    found = solve(risk(X, Y, 1e-3, name, w), SmoothedNewton(tolerance=1e-6))
    assert found.record.converged, found.record.message


@pytest.mark.parametrize("weighted", [False, True])
def test_a_classifier_takes_all_rows_in_any_order_for_centers(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.argmax(X + 0.5 * rng.gumbel(size=X.shape), axis=1)
    w = rng.integers(0, 3, size=120).astype(float) if weighted else None
    given = {"kernel": KERNEL, "penalty": 1e-3, "loss": "softmax", "verbose": False}
    model = KernelClassifier(**given, solver=Newton(1e-9)).fit(X, y, w)
    assert len(model.centers_) == (np.count_nonzero(w) if weighted else 120)
    K = oracle.dense(KERNEL, X, X)
    expected = DenseRisk("softmax", K, K, np.eye(3)[y], 1e-3, w, True).minimize()
    found = np.log(model.predict_proba(X))
    assert distance("softmax", found, expected) <= 1e-6


@pytest.mark.parametrize("loss", ["exponential", "logistic", "softmax"])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_over_many_orders_end_at_the_tolerance(loss, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.digitize(X[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    given = {"kernel": "gaussian", "length_scale": 2.0, "penalty": 1e-6, "verbose": False}
    model = KernelClassifier(**given, loss=loss).fit(X, y, rng.lognormal(0, 2, 200))
    assert model.record_.message == "the gradient reached the tolerance"


@pytest.mark.parametrize(("most", "threads"), [(10**9, 1), (0, 2)])
def test_small_solves_keep_to_one_thread(most, threads, monkeypatch):
    monkeypatch.setattr("gyrfalcon.solvers.newton.solver.ONE_THREAD_ENTRIES", most)
    X, Y, w = data(Simplex, 2)
    torch.set_num_threads(2)  # the fixture sets it back
    seen = []
    newton(risk(X, Y, 1e-4, "logistic", w), callback=lambda step: seen.append(torch.get_num_threads()))
    assert set(seen) == {threads}
    assert torch.get_num_threads() == 2
