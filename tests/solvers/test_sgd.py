"""Stochastic gradients against a plain loop, against the minimizers they go to, and the ways they stop."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVC

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.data import ArraySource
from gyrfalcon.losses import LOSSES, Absolute, Hinge, Logistic, OneHot, Quantile, Simplex, Squared
from gyrfalcon.matrix import native_engine
from gyrfalcon.solvers import Risk, plot_filter
from reference import kernels as oracle
from reference import relative_error
from reference import sgd as reference
from reference.losses import FORMULAS
from reference.solving import Rule, newton, sgd

pytestmark = pytest.mark.usefixtures("one_thread")  # small products, many of them

KERNEL = gk.Gaussian(1.5)
CODINGS = {"logistic": Simplex, "exponential": Simplex, "hinge": Simplex, "softmax": OneHot}
CASES = [(name, k) for name in LOSSES for k in ((2, 4) if name in CODINGS else (1, 2))]


def two_epochs(**changes):
    return Rule(**({"validation": None, "max_iterations": 2} | changes))


def data(name="squared", k=1, n=70, d=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    scores = np.sin(1.5 * X[:, :1] * np.arange(1, k + 1)) + X[:, 1:2] * np.linspace(-1, 1, k)
    scores = scores + 0.3 * rng.gumbel(size=scores.shape)
    if name == "multilabel_logistic":
        return X, np.sign(scores).astype(dtype)
    if name not in CODINGS:
        return X, scores.astype(dtype)
    classes = np.argmax(scores, axis=1) if k > 1 else (scores[:, 0] > 0).astype(int)
    return X, CODINGS[name](k).encode(classes).astype(dtype)


def problem_of(X, C, Y, loss, penalty=0.0, weights=None, intercept=False, kernel=KERNEL):
    X, C = (A if A is None or sparse.issparse(A) or isinstance(A, ArraySource) else torch.from_numpy(A) for A in (X, C))
    column = None if weights is None else torch.from_numpy(weights)[:, None]
    return Risk(KernelMatrix(kernel, X, C), torch.from_numpy(Y), penalty, loss, column, intercept)


class Place:
    """A way to pose the problem, its dense features, and predictions from a solution."""

    def __init__(self, where, X):
        self.kernel, self.C = KERNEL, None
        if where == "points":
            K = oracle.dense(KERNEL, X, X)
            self.K, self.Phi = K, reference.features(K)
        elif where == "centers":
            self.C = X[:12].copy()
            self.K = oracle.dense(KERNEL, X, self.C)
            values, vectors = np.linalg.eigh(oracle.dense(KERNEL, self.C, self.C) + 1e-10 * np.eye(12))  # the jitter
            self.Phi = self.K @ (vectors / np.sqrt(values))
        else:
            self.kernel, self.C = gk.Linear(), np.eye(X.shape[1])
            self.K = self.Phi = X
        self.peak = (np.ones(len(X)) if where != "features" else (X**2).sum(1)).max()

    def predict(self, solution):
        return self.K @ solution.coefficients.numpy() + solution.intercept.numpy()


@pytest.fixture(params=["native", "torch"])
def engine(request, monkeypatch):
    """With the compiled steps and without."""
    if request.param == "native":
        pytest.importorskip("gyrfalcon._native")
    else:
        monkeypatch.setattr(native_engine, "core", None)
    return request.param


@pytest.mark.parametrize(("name", "k"), CASES)
@pytest.mark.parametrize("where", ["points", "centers", "features"])
def test_agrees_with_a_plain_loop(engine, name, k, where):
    X, Y = data(name, k)
    place = Place(where, X)
    weights = np.random.default_rng(1).integers(0, 3, size=len(X)).astype(float)
    how = {"decay": 0.3, "penalty": 0.02, "weights": weights, "averaging": "steps"}
    w, b = reference.descend(place.Phi, Y, name, reference.orders(len(X), 2), 0.2, batch=3, rate=place.peak, **how)
    problem = problem_of(X, place.C, Y, LOSSES[name], 0.02, weights, True, place.kernel)
    solution = sgd(problem, two_epochs(), step=0.2, decay=0.3, batch_size=3, averaging="steps")
    assert relative_error(place.predict(solution), place.Phi @ w + b) <= 1e-10


@pytest.mark.parametrize("averaging", [None, "steps", "uniform", "polynomial"])
@pytest.mark.parametrize("batch", [1, 7, 300, 1000])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_agrees_with_a_plain_loop_over_many_chunks(engine, averaging, batch, penalty):
    X, Y = data("hinge", 2, n=300, d=4)
    place = Place("points", X)
    w, b = reference.descend(
        place.Phi, Y, "hinge", reference.orders(300, 2), 0.4, batch=batch, penalty=penalty, averaging=averaging
    )
    problem = problem_of(X, None, Y, Hinge(), penalty)
    solution = sgd(problem, two_epochs(), step=0.4, batch_size=batch, averaging=averaging)
    assert relative_error(place.predict(solution), place.Phi @ w + b) <= 1e-10


def test_levels_of_quantiles_reach_the_compiled_steps(engine):
    X, Y = data()
    place = Place("features", X)
    slopes = FORMULAS["quantile"](np.zeros_like(Y), Y, 0.9)[1]
    solution = sgd(
        problem_of(X, place.C, Y, Quantile(0.9), kernel=place.kernel),
        two_epochs(max_iterations=1),
        step=0.1,
        batch_size=70,
    )
    np.testing.assert_allclose(solution.coefficients, -0.1 * X.T @ slopes / 70, rtol=1e-12)


def test_a_loss_of_ones_own_is_served():
    class Halved(Squared):
        def slope(self, u):
            return u

    X, Y = data()
    ours = sgd(problem_of(X, None, Y, Halved()), two_epochs(), step=0.2)
    squared = sgd(problem_of(X, None, Y, Squared()), two_epochs(), step=0.1)
    torch.testing.assert_close(ours.coefficients, squared.coefficients)


def risk_of(F, Y, name, penalty, norms, **how):
    return FORMULAS[name](F, Y, **how)[0].mean() + penalty * norms


@pytest.mark.parametrize("where", ["points", "centers", "features"])
def test_goes_to_the_ridge_solution(where):
    X, Y = data(n=200)
    place, penalty = Place(where, X), 0.02
    best = np.linalg.solve(place.Phi.T @ place.Phi / 200 + penalty * np.eye(place.Phi.shape[1]), place.Phi.T @ Y / 200)
    problem = problem_of(X, place.C, Y, Squared(), penalty, kernel=place.kernel)
    step = 0.2 / place.peak
    solution = sgd(problem, two_epochs(max_iterations=100), step=step, decay=0.5, averaging="polynomial")
    assert relative_error(place.predict(solution), place.Phi @ best) <= 0.02


def test_goes_to_the_support_vector_machine():
    X, Y = data("hinge", 2, n=300, d=4)
    penalty = 0.01
    svm = LinearSVC(loss="hinge", C=1 / (2 * penalty * 300), fit_intercept=False, dual=True, tol=1e-8, max_iter=10**6)
    w = svm.fit(X, Y[:, 0]).coef_.T
    problem = problem_of(X, np.eye(4), Y, Hinge(), penalty, kernel=gk.Linear())
    solution = sgd(problem, two_epochs(max_iterations=100), step=0.1, decay=0.5, averaging="polynomial")
    v = solution.coefficients.numpy()
    best, found = (risk_of(X @ u, Y, "hinge", penalty, (u**2).sum()) for u in (w, v))
    assert best <= found <= best + 1e-3
    assert relative_error(v, w) <= 0.05


@pytest.mark.parametrize("level", [0.25, 0.5, 0.9])
def test_goes_to_the_quantile_regression(level):
    X, Y = data(n=400)
    sk = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, Y[:, 0])
    problem = problem_of(X, np.eye(3), Y, Quantile(level), intercept=True, kernel=gk.Linear())
    solution = sgd(problem, two_epochs(max_iterations=100), step=0.3, decay=0.5, averaging="polynomial")
    F = X @ solution.coefficients.numpy() + solution.intercept.numpy()
    best, found = (risk_of(f, Y, "quantile", 0, 0, level=level) for f in (sk.predict(X)[:, None], F))
    assert best <= found <= best * 1.002
    assert np.mean(F > Y) == pytest.approx(level, abs=0.03)


def test_half_the_absolute_loss_is_the_quantile_loss_of_the_median():
    X, Y = data()
    absolute = sgd(problem_of(X, None, Y, Absolute()), two_epochs(), step=0.125)
    median = sgd(problem_of(X, None, Y, Quantile(0.5)), two_epochs(), step=0.25)
    torch.testing.assert_close(absolute.coefficients, median.coefficients)


@pytest.mark.parametrize(
    ("name", "k"), [("squared", 3), ("logistic", 3), ("exponential", 3), ("hinge", 2), ("softmax", 3)]
)
def test_classes_are_learned_with_every_margin_loss_and_coding(name, k):
    rng = np.random.default_rng(0)
    classes = rng.integers(k, size=400)
    X = 2.5 * np.array([[np.cos(c), np.sin(c)] for c in 2 * np.pi * np.arange(k) / k])[classes] + rng.normal(
        size=(400, 2)
    )
    coding = (OneHot if name == "softmax" else Simplex)(k)
    problem = problem_of(X, X[:40].copy(), coding.encode(classes), LOSSES[name])
    solution = sgd(problem, Rule(max_iterations=20), step=[1.0, 0.1], decay=0.5)
    F = oracle.dense(KERNEL, X, X[:40]) @ solution.coefficients.numpy()
    assert np.mean(coding.decode(F) == classes) > 0.93


def test_outputs_stand_in_any_order_and_scale_with_targets():
    X, Y = data(k=3)
    order = [2, 0, 1]
    for loss in (Squared(), Absolute(), Quantile(0.3)):
        one, other = (sgd(problem_of(X, None, y, loss, intercept=True), two_epochs()) for y in (Y, Y[:, order].copy()))
        assert torch.equal(one.coefficients[:, order], other.coefficients)
        assert torch.equal(one.intercept[order], other.intercept)
        step = 0.0625 if loss.name == "squared" else 0.25
        scaled = sgd(problem_of(X, None, 4 * Y, loss), two_epochs(), step=step)
        plain = sgd(problem_of(X, None, Y, loss), two_epochs(), step=0.0625)
        assert torch.equal(scaled.coefficients, 4 * plain.coefficients)


def test_the_same_seed_gives_the_same_bits():
    X, Y = data("logistic", 2, n=300)
    problem = problem_of(X, X[:20].copy(), Y, Logistic(), intercept=True)
    first, again = (sgd(problem, averaging="uniform", random_state=3) for _ in range(2))
    assert torch.equal(first.coefficients, again.coefficients)
    assert torch.equal(first.intercept, again.intercept)
    assert first.record.path == again.record.path
    other = sgd(problem, averaging="uniform", random_state=4)
    assert not torch.equal(first.coefficients, other.coefficients)


@pytest.mark.parametrize("where", ["points", "centers", "features"])
def test_a_resumed_solve_ends_with_the_same_bits(where):
    X, Y = data(n=300)
    place, rule = Place(where, X), Rule(max_iterations=6)
    problem = problem_of(X, place.C, Y, Squared(), 1e-3, intercept=True, kernel=place.kernel)
    how = {"step": [0.1, 0.03], "decay": 0.25, "averaging": "steps"}
    whole = sgd(problem, rule, **how)
    kept = []
    sgd(problem, dataclasses.replace(rule, max_iterations=3), **how, keep=lambda take: kept.append(take()))
    facts, arrays = kept[-1]
    assert all(isinstance(value, int) for value in facts.values())
    resumed = sgd(problem, rule, **how, resume=(facts, arrays))
    assert torch.equal(whole.coefficients, resumed.coefficients)
    assert torch.equal(whole.intercept, resumed.intercept)
    assert whole.record.path == resumed.record.path


@pytest.mark.parametrize("validation", [0.25, 3])
def test_steps_and_epochs_are_chosen_on_rows_held_out(validation):
    X, Y = data(n=150)
    rule = Rule(validation=validation, max_iterations=5, patience=5)
    solution = sgd(problem_of(X, None, Y, Squared()), rule, step=[0.01, 0.3, 0.1])
    path, record = solution.record.path, solution.record
    assert path.unit == "epoch"
    assert path.errors[path.chosen] == min(path.errors)
    chosen = float(record.reason.split()[1].rstrip(","))
    alone = sgd(problem_of(X, None, Y, Squared()), two_epochs(max_iterations=path.chosen), step=chosen)
    torch.testing.assert_close(solution.coefficients, alone.coefficients)  # the model has learned from all rows
    for step in (0.01, 0.3, 0.1):
        single = sgd(problem_of(X, None, Y, Squared()), rule, step=step).record
        assert min(single.path.errors) >= min(path.errors) - 1e-12
        if step == chosen:
            np.testing.assert_allclose(single.path.errors, path.errors, rtol=1e-12)
    plot_filter(solution)


def test_errors_are_of_models_that_have_not_seen_the_rows():
    X, Y = data(n=90)
    record = sgd(problem_of(X, None, Y, Squared()), Rule(validation=0.3, max_iterations=2), step=0.2).record
    labels = np.random.default_rng(0).permutation((np.arange(90) >= 63).astype(int))
    Phi = reference.features(oracle.dense(KERNEL, X, X))
    w, _ = reference.descend(Phi, Y, "squared", reference.orders(90, 2), 0.2, weights=1.0 - labels)
    np.testing.assert_allclose(record.validation_errors[2], np.mean((Phi @ w - Y)[labels == 1] ** 2), rtol=1e-9)
    np.testing.assert_allclose(record.validation_errors[0], np.mean(Y[labels == 1] ** 2), rtol=1e-12)


def test_objectives_are_losses_of_rows_as_they_were_met():
    X, Y = data(n=50)
    record = sgd(problem_of(X, np.eye(3), Y, Squared(), kernel=gk.Linear()), two_epochs(), step=0.05).record
    w, losses = np.zeros((3, 1)), []
    for i in reference.orders(50, 1)[0]:
        residual = X[i] @ w - Y[i]
        losses.append(float(residual[0] ** 2))
        w = w - 0.05 * 2 * X[i][:, None] * residual
    assert record.objective_history[0] == pytest.approx(np.mean(Y**2))
    assert record.objective_history[1] == pytest.approx(np.mean(losses))
    assert record.residuals[0] == 1


@pytest.mark.parametrize("C", [None, "some"])
def test_the_objective_has_a_number_for_each_output_that_it_is_a_sum_over(C):
    X, Y = data(n=60)
    Y = np.concatenate([Y, 3 * Y], axis=1)
    record = sgd(problem_of(X, C and X[:10].copy(), Y, Squared(), penalty=0.01), two_epochs(), step=0.05).record
    one, other = record.objective
    assert other == pytest.approx(9 * one)
    assert one + other == pytest.approx(record.objective_history[-1])
    classes = Simplex(3).encode(np.arange(60) % 3)
    record = sgd(problem_of(X, None, classes, LOSSES["logistic"], penalty=0.01), two_epochs(), step=0.05).record
    assert record.objective == record.objective_history[-1:]


def test_patience_ends_it():
    X, Y = data(n=120)
    rule = Rule(patience=3, max_iterations=200)
    record = sgd(problem_of(X, None, Y + 3 * np.random.default_rng(0).normal(size=Y.shape), Squared()), rule).record
    assert record.converged
    assert record.path.chosen < record.iterations < 200
    assert str(record.path.chosen) in record.message


def test_a_start_is_where_it_begins():
    X, Y = data(n=80)
    for C in (None, X[:10].copy()):
        problem = problem_of(X, C, Y, Squared(), intercept=True)
        start = torch.ones(problem.K.shape[1], 1, dtype=torch.float64), torch.full((1,), 2.0)
        tiny = sgd(problem, two_epochs(), step=1e-12, start=start)
        torch.testing.assert_close(tiny.coefficients, start[0])
        torch.testing.assert_close(tiny.intercept, start[1].double())
        value = float((problem.K @ start[0] + 2 - problem.Y).square().mean())
        assert tiny.record.objective_history[0] == pytest.approx(value)
        with pytest.raises(ValueError, match="start"):
            sgd(problem, start=start[0][:3])


def test_the_callback_sees_models_and_can_stop():
    X, Y = data()
    seen = []

    def callback(step):
        seen.append((step.iteration, step.objective, step.solution()[0]))
        return step.iteration == 2

    solution = sgd(problem_of(X, None, Y, Squared()), two_epochs(max_iterations=9), callback=callback)
    assert [s[0] for s in seen] == [1, 2]
    assert [s[1] for s in seen] == solution.record.objective_history[1:]
    assert torch.equal(seen[-1][2], solution.coefficients)
    assert "callback" in solution.record.message


def test_sparse_rows_files_and_single_precision():
    X, Y = data(n=300)
    plain = sgd(problem_of(X, X[:15].copy(), Y, Squared()), two_epochs(), step=0.1)
    F = oracle.dense(KERNEL, X, X[:15]) @ plain.coefficients.numpy()
    thin = sgd(problem_of(sparse.csr_array(X), sparse.csr_array(X[:15]), Y, Squared()), two_epochs(), step=0.1)
    assert relative_error(oracle.dense(KERNEL, X, X[:15]) @ thin.coefficients.numpy(), F) <= 1e-8
    for C in (None, X[:15].astype(np.float32)):
        problem = problem_of(X.astype(np.float32), C, Y.astype(np.float32), Squared())
        single = sgd(problem, two_epochs(), step=0.1)
        wide = sgd(problem_of(X, None if C is None else X[:15].copy(), Y, Squared()), two_epochs(), step=0.1)
        K = oracle.dense(KERNEL, X, X if C is None else X[:15])
        assert relative_error(K @ single.coefficients.numpy(), K @ wide.coefficients.numpy()) <= 1e-3
    explicit = problem_of(sparse.csr_array(X), sparse.csr_array(np.eye(3)), Y, Squared(), kernel=gk.Linear())
    dense = problem_of(X, np.eye(3), Y, Squared(), kernel=gk.Linear())
    torch.testing.assert_close(
        sgd(explicit, two_epochs(), step=0.02).coefficients, sgd(dense, two_epochs(), step=0.02).coefficients
    )


def test_random_features_are_features(engine):
    X, Y = data()
    waves = np.random.default_rng(0).normal(size=(40, 3))
    kernel = gk.Fourier(amplitude=40**-0.5)
    Z = KernelMatrix(kernel, X, waves).to_dense()
    w, _ = reference.descend(Z, Y, "squared", reference.orders(70, 2), 0.2, penalty=0.1)
    solution = sgd(problem_of(X, waves, Y, Squared(), 0.1, kernel=kernel), two_epochs(), step=0.2)
    assert relative_error(solution.coefficients, w) <= 1e-10


def test_rows_that_are_read_and_features_that_do_not_fit():
    X, Y = data(n=700)
    C, losses = X[:15].copy(), []
    for points, budget in ((ArraySource(X, dtype=np.float64), None), (X, None), (X, 20_000)):
        K = KernelMatrix(KERNEL, points, C, memory_budget=budget)
        problem = Risk(K, torch.from_numpy(Y), 0.0, Squared())
        losses.append(sgd(problem, two_epochs(validation=0.2, max_iterations=4), step=0.1).record.objective_history[-1])
    assert losses[1] == pytest.approx(losses[2], rel=1e-9)
    assert losses[0] == pytest.approx(losses[1], rel=0.05)  # another order


def test_steps_that_are_too_large():
    X, Y = data()
    with pytest.raises(ValueError, match="step is too large"):
        sgd(problem_of(X, None, Y, Squared()), two_epochs(max_iterations=20), step=1e6)
    solution = sgd(problem_of(X, None, Y, Squared(), intercept=True), two_epochs(validation=0.2), step=[1e9, 0.1])
    assert "0.1" in solution.record.reason
    assert bool(solution.coefficients.isfinite().all())
    with pytest.raises(ValueError, match=r"1/\(4·penalty\)"):
        sgd(problem_of(X, None, Y, Squared(), 1.0), step=1.0)


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({"step": 0.0}, "step"),
        ({"step": [0.1, -1]}, "step"),
        ({"step": []}, "step"),
        ({"step": [[0.1]]}, "dimension"),
        ({"step": [0.1, 0.2], "decay": [0.1, 0.2, 0.3]}, "equally many"),
        ({"decay": -0.5}, "decay"),
        ({"decay": float("nan")}, "decay"),
        ({"batch_size": 0}, "batch_size"),
        ({"averaging": "median"}, "averaging"),
    ],
)
def test_bad_arguments_are_named(how, named):
    X, Y = data()
    with pytest.raises(ValueError, match=named):
        sgd(problem_of(X, None, Y, Squared()), **how)


def test_bad_problems_are_named():
    X, Y = data()
    with pytest.raises(ValueError, match="validation=None"):
        sgd(problem_of(X, None, Y, Squared()), two_epochs(), step=[0.1, 0.2])
    with pytest.raises(ValueError, match="positive definite"):
        sgd(problem_of(X, None, Y, Squared(), kernel=gk.Sigmoid()))
    with pytest.raises(ValueError, match="rows and centers"):
        sgd(problem_of(X, X[:0].copy(), Y, Squared()))
    weights = (np.arange(70) == 0).astype(float)
    with pytest.raises(ValueError, match="held out"):
        sgd(problem_of(X, None, Y, Squared(), weights=weights))


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.9)], ids=lambda loss: loss.name)
def test_newton_refuses_losses_with_kinks(loss):
    X, Y = data(loss.name, 2)
    with pytest.raises(ValueError, match=rf"{loss.name}.*smoothed_newton"):
        newton(problem_of(X, None, Y[:, :1], loss))
