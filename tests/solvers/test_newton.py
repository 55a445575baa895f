"""Newton's method on every loss against a dense float64 one, against scikit-learn, and where fits are hard."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.losses import LOSSES, Exponential, Logistic, OneHot, Robust, Simplex, Softmax, Squared
from gyrfalcon.solvers import LeastSquares, Risk
from gyrfalcon.solvers.newton import state as newton_state
from reference import kernels as oracle
from reference import relative_error
from reference.losses import DenseRisk
from reference.solving import direct, newton

pytestmark = pytest.mark.usefixtures("one_thread")  # small products, many of them

KERNEL = gk.Gaussian(1.5)
CASES = [
    ("squared", None, 1),
    ("squared", None, 2),
    ("robust", None, 1),
    ("robust", None, 3),
    ("logistic", Simplex, 2),
    ("logistic", Simplex, 4),
    ("exponential", Simplex, 2),
    ("exponential", Simplex, 3),
    ("softmax", OneHot, 2),
    ("softmax", OneHot, 4),
]


def data(coding, k, n=150, m=16, d=3, seed=0, dtype=np.float64):
    """Points, centers, targets of k classes or outputs, weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    scores = np.sin(1.5 * X[:, :1] * np.arange(1, k + 1)) + X[:, 1:2] * np.linspace(-1, 1, k)
    if coding is None:
        Y = scores + 0.3 * rng.standard_t(2, size=scores.shape) + 1
    else:
        Y = coding(k).encode(np.argmax(2 * scores + rng.gumbel(size=scores.shape), axis=1))
    return X, X[:m].copy(), Y, rng.integers(0, 4, size=n).astype(dtype)


def risk(X, C, Y, penalty, loss, weights=None, intercept=False, kernel=KERNEL):
    X, C, Y = (A if sparse.issparse(A) else torch.from_numpy(A) for A in (X, C, Y))
    weights = None if weights is None else torch.from_numpy(weights)[:, None]
    return Risk(KernelMatrix(kernel, X, C), Y, penalty, loss, weights, intercept)


def predictions(solution, X, C, kernel=KERNEL):
    K = oracle.dense(kernel, np.asarray(X, np.float64), np.asarray(C, np.float64))
    return K @ solution.coefficients.numpy() + solution.intercept.numpy()


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_dense_newton(name, coding, k, weighted, intercept):
    X, C, Y, w = data(coding, k)
    penalty = 1e-4
    w = w if weighted else None
    solution = newton(risk(X, C, Y, penalty, LOSSES[name], w, intercept), tolerance=1e-8)
    assert solution.record.converged, solution.record.message
    dense = DenseRisk(name, oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C), Y, penalty, w, intercept)
    expected = dense.minimize()
    found = predictions(solution, X, C)
    if name == "softmax":  # a constant added to all outputs changes no probability
        found, expected = (F - F.mean(1, keepdims=True) for F in (found, expected))
    assert relative_error(found, expected) <= 1e-6


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
def test_the_gradient_falls_to_the_tolerance_and_the_objective_with_it(name, coding, k):
    X, C, Y, w = data(coding, k)
    solution = newton(risk(X, C, Y, 1e-4, LOSSES[name], w, intercept=True))
    Kmm = oracle.dense(KERNEL, C, C)
    dense = DenseRisk(name, oracle.dense(KERNEL, X, C), Kmm, Y, 1e-4, w, intercept=True)
    theta = np.linalg.lstsq(dense.features, predictions(solution, X, C), rcond=None)[0]
    zero = np.zeros_like(theta)
    record = solution.record
    assert record.residuals[-1] <= 1e-6
    ratio = dense.preconditioned(theta, Kmm, theta) / dense.preconditioned(zero, Kmm, theta)
    assert ratio == pytest.approx(record.residuals[-1], rel=0.3)  # the factors may be those of the step before
    assert dense.decrement(theta) <= 1e-5 * dense.decrement(zero)  # 16 centers make a rough preconditioner
    assert record.objective_history[-1] == pytest.approx(dense.derivatives(theta)[0], rel=1e-8)
    assert record.objective_history[0] > record.objective_history[-1]
    assert record.passes >= record.inner_iterations >= record.iterations


def test_the_squared_loss_gives_the_ridge_solution():
    X, C, Y, w = data(None, 2)
    found = newton(risk(X, C, Y, 1e-4, Squared(), w, intercept=True), tolerance=1e-9)
    tensors = [torch.from_numpy(A) for A in (X, C, Y, w)]
    ridge = direct(LeastSquares(KernelMatrix(KERNEL, *tensors[:2]), tensors[2], 1e-4, tensors[3][:, None], True))
    assert relative_error(predictions(found, X, C), predictions(ridge, X, C)) <= 1e-7
    np.testing.assert_allclose(found.record.objective, ridge.record.objective, rtol=1e-7)
    assert found.record.objective_history[-1] == pytest.approx(sum(ridge.record.objective), rel=1e-7)


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
def test_the_objective_has_a_number_for_each_output_that_it_is_a_sum_over(name, coding, k):
    X, C, Y, w = data(coding, k)
    record = newton(risk(X, C, Y, 1e-3, LOSSES[name], w, intercept=True)).record
    assert len(record.objective) == (k if coding is None else 1)
    assert sum(record.objective) == pytest.approx(record.objective_history[-1], rel=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_agrees_with_scikit_learn_on_a_linear_kernel(intercept, classes):
    """Its C Σ ℓ + ‖w‖²/2 is ours for C = 1 / (2 n penalty)."""
    X, _, _, _ = data(None, 1, n=120, d=4)
    labels = np.digitize(X[:, 0] + 0.5 * X[:, 1] + np.random.default_rng(1).normal(size=120), np.arange(classes - 1))
    penalty = 1e-2
    model = LogisticRegression(C=1 / (2 * 120 * penalty), fit_intercept=intercept, tol=1e-10, max_iter=10_000)
    scores = model.fit(X, labels).decision_function(X).reshape(120, -1)
    loss, coding = (Logistic(), Simplex) if classes == 2 else (Softmax(), OneHot)
    kernel = gk.Linear(1.0)
    solution = newton(
        risk(X, X, coding(classes).encode(labels), penalty, loss, None, intercept, kernel), tolerance=1e-9
    )
    found = X @ (X.T @ solution.coefficients.numpy()) + solution.intercept.numpy()
    if classes > 2:
        found, scores = (F - F.mean(1, keepdims=True) for F in (found, scores))
    assert relative_error(found, scores) <= 1e-5
    probabilities = loss.probabilities(torch.from_numpy(found)).numpy()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize(("name", "coding", "k"), [("logistic", Simplex, 2), ("softmax", OneHot, 3)])
def test_weights_count_repetitions(name, coding, k):
    X, C, Y, w = data(coding, k)
    weighted = newton(risk(X, C, Y, 1e-3, LOSSES[name], w, intercept=True), tolerance=1e-9)
    rows = np.repeat(np.arange(len(X)), w.astype(int))  # those of weight zero are gone
    repeated = newton(risk(X[rows], C, Y[rows], 1e-3, LOSSES[name], None, intercept=True), tolerance=1e-9)
    assert relative_error(predictions(weighted, X, C), predictions(repeated, X, C)) <= 1e-6


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
def test_float32_ends_at_the_float64_answer(name, coding, k):
    X, C, Y, _ = data(coding, k, dtype=np.float32)
    solution = newton(risk(X, C, Y.astype(np.float32), 1e-5, LOSSES[name], None, intercept=True))
    assert solution.record.converged, solution.record.message
    wide = newton(risk(X.astype(float), C.astype(float), Y, 1e-5, LOSSES[name], None, intercept=True))
    assert relative_error(predictions(solution, X, C), predictions(wide, X, C)) <= 1e-3


def test_float32_says_when_rounding_stops_it():
    X, C, Y, _ = data(Simplex, 2, dtype=np.float32)
    record = newton(risk(X, C, Y, 1e-4, Logistic()), tolerance=1e-14).record
    assert not record.converged
    assert "rounding" in record.message
    assert record.iterations < 50
    assert min(record.residuals) < 1e-5


def test_sparse_points():
    X, _, Y, _ = data(Simplex, 2, d=8)
    X[np.abs(X) < 0.5] = 0
    C = X[:16].copy()
    dense = newton(risk(X, C, Y, 1e-4, Logistic(), None, True))
    thin = newton(risk(sparse.csr_array(X), sparse.csr_array(C), Y, 1e-4, Logistic(), None, True))
    assert relative_error(predictions(thin, X, C), predictions(dense, X, C)) <= 1e-7


@pytest.mark.parametrize(("name", "coding", "k"), [("logistic", Simplex, 2), ("softmax", OneHot, 3)])
def test_warm_start(name, coding, k):
    X, C, Y, _ = data(coding, k)
    cold = newton(risk(X, C, Y, 1e-5, LOSSES[name], None, True))
    near = newton(risk(X, C, Y, 2e-5, LOSSES[name], None, True), tolerance=1e-8)
    warm = newton(risk(X, C, Y, 1e-5, LOSSES[name], None, True), start=(near.coefficients, near.intercept))
    again = newton(risk(X, C, Y, 2e-5, LOSSES[name], None, True), start=(near.coefficients, near.intercept))
    assert warm.record.iterations < cold.record.iterations
    assert warm.record.passes < cold.record.passes
    assert again.record.iterations == 0
    assert relative_error(predictions(warm, X, C), predictions(cold, X, C)) <= 1e-4
    with pytest.raises(ValueError, match="start"):
        newton(risk(X, C, Y, 1e-5, LOSSES[name]), start=near.coefficients[:3])


def test_a_poor_start_is_left_behind():
    X, C, Y, _ = data(Simplex, 2)
    start = torch.full((16, 1), 50.0, dtype=torch.float64)
    for loss in (Logistic(), Exponential(), Robust()):
        cold, warm = newton(risk(X, C, Y, 1e-3, loss)), newton(risk(X, C, Y, 1e-3, loss), start=start)
        assert warm.record.converged, warm.record.message
        assert relative_error(predictions(warm, X, C), predictions(cold, X, C)) <= 1e-4


def test_the_callback_sees_coefficients_and_can_stop():
    X, C, Y, _ = data(OneHot, 3)
    seen = []

    def callback(step):
        coefficients, intercept = step.solution()
        seen.append((step.iteration, tuple(coefficients.shape), tuple(intercept.shape), step.residual))
        return step.iteration == 3

    record = newton(risk(X, C, Y, 1e-6, Softmax(), None, True), callback=callback).record
    assert [s[:3] for s in seen] == [(i, (16, 3), (3,)) for i in (1, 2, 3)]
    assert [s[3] for s in seen] == record.residuals[1:]
    assert not record.converged
    assert "callback" in record.message


@pytest.mark.parametrize("name", ["logistic", "exponential"])
@pytest.mark.parametrize("penalty", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_separable_classes_are_separated(name, penalty, intercept, dtype):
    X, C, _, _ = data(None, 1, dtype=dtype)
    Y = np.where(X[:, :1] > 0, 1.0, -1.0).astype(dtype)
    X[:, 0] += Y[:, 0]
    solution = newton(risk(X, C, Y, penalty, LOSSES[name], None, intercept), max_iterations=40)
    F = predictions(solution, X, C)
    assert np.isfinite(F).all()
    assert np.isfinite(solution.record.objective_history).all()
    assert solution.record.message
    assert (F * Y > 0).mean() > 0.97


@pytest.mark.parametrize(("name", "coding", "k"), CASES)
@pytest.mark.parametrize("penalty", [0.0, 1e-3])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_point_and_one_class(name, coding, k, penalty, intercept):
    Y = np.ones((5, k)) if coding is None else coding(k).encode(np.ones(5, dtype=int))
    X = np.random.default_rng(0).normal(size=(5, 2))
    for n in (1, 5):
        solution = newton(risk(X[:n], X[:n], Y[:n], penalty, LOSSES[name], None, intercept), max_iterations=40)
        F = predictions(solution, X[:n], X[:n])
        assert np.isfinite(F).all()
        if coding is None:
            assert np.abs(F - 1).max() < 0.2
        else:
            assert (coding(k).decode(F) == 1).all()


@pytest.mark.parametrize(
    ("name", "coding", "k"), [("logistic", Simplex, 2), ("softmax", OneHot, 3), ("robust", None, 1)]
)
def test_duplicate_centers_change_nothing(name, coding, k):
    X, C, Y, _ = data(coding, k)
    doubled = np.concatenate([C, C])
    once = newton(risk(X, C, Y, 1e-5, LOSSES[name], None, True), tolerance=1e-8)
    twice = newton(risk(X, doubled, Y, 1e-5, LOSSES[name], None, True), tolerance=1e-8)
    assert twice.record.converged, twice.record.message
    assert twice.record.jitter > 0
    assert relative_error(predictions(twice, X, doubled), predictions(once, X, C)) <= 1e-6


def test_all_points_as_centers():
    X, _, Y, w = data(Simplex, 2, n=90)
    solution = newton(risk(X, X, Y, 1e-4, Logistic(), w, True), tolerance=1e-9)
    K = oracle.dense(KERNEL, X, X)
    expected = DenseRisk("logistic", K, K, Y, 1e-4, w, True).minimize()
    assert relative_error(predictions(solution, X, X), expected) <= 1e-6


def test_the_most_iterations_are_respected_and_said():
    X, C, Y, _ = data(Simplex, 2)
    record = newton(risk(X, C, Y, 1e-6, Logistic()), max_iterations=2).record
    assert record.iterations == 2
    assert len(record.residuals) == 3
    assert not record.converged
    assert "2 iterations" in record.message


def test_bad_problems_are_named():
    X, C, Y, w = data(Simplex, 2)
    for weights, named in ((-w, "zero or more"), (0 * w, "not all zero"), (np.full_like(w, np.nan), "finite")):
        with pytest.raises(ValueError, match=named):
            risk(X, C, Y, 1e-3, Logistic(), weights)
    with pytest.raises(ValueError, match="weights must have shape"):
        Risk(KernelMatrix(KERNEL, X, C), torch.from_numpy(Y), 1e-3, Logistic(), torch.ones(3, 1))
    with pytest.raises(ValueError, match="Simplex"):
        risk(X, C, (Y + 1) / 2, 1e-3, Logistic())
    with pytest.raises(ValueError, match="OneHot"):
        risk(X, C, Y, 1e-3, Softmax())
    with pytest.raises(ValueError, match="penalty"):
        risk(X, C, Y, -1.0, Logistic())


@pytest.mark.parametrize("classes", [2, 4])
def test_stored_and_made_products_agree(monkeypatch, classes):
    """Few entries are stored in the coordinates; more are made in each pass."""
    X, C, Y, _ = data(Simplex, classes)
    stored = newton(risk(X, C, Y, 1e-4, Logistic()), tolerance=1e-10)
    monkeypatch.setattr(newton_state, "WHITENED_ENTRIES", 0)
    made = newton(risk(X, C, Y, 1e-4, Logistic()), tolerance=1e-10)
    assert stored.record.passes == made.record.passes
    np.testing.assert_allclose(stored.record.objective, made.record.objective, rtol=1e-12)
    np.testing.assert_allclose(predictions(stored, X, C), predictions(made, X, C), atol=1e-7)
