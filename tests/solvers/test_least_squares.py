"""Every solver of the penalized least-squares problem against the dense float64 minimizer."""

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.linalg.positive import solve_positive
from gyrfalcon.solvers.falkon import NormalEquations
from gyrfalcon.solvers.problem import LeastSquares
from reference import kernels as oracle
from reference import ridge
from reference.solving import direct, exact, falkon

KERNELS = [gk.Gaussian(1.5), gk.Laplacian(2.0), gk.Matern(1.0, 1.5) + 0.3 * gk.Linear(2.0)]


def tight_falkon(problem):
    return falkon(problem, tolerance=1e-13, max_iterations=400)


SOLVERS = {"direct": direct, "falkon": tight_falkon}


def data(n=300, m=40, d=3, t=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    Y = (np.sin(X[:, :1] * np.arange(1, t + 1)) + 2 + 0.1 * rng.normal(size=(n, t))).astype(dtype)
    return X, X[:m].copy(), Y, rng.integers(0, 4, size=n).astype(dtype)


def tensors(*arrays):
    return [torch.from_numpy(a) for a in arrays]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [1e-2, 1e-5])
def test_agrees_with_the_dense_minimizer(solver, kernel, intercept, weighted, penalty):
    X, C, Y, w = data()
    K, Kmm = oracle.dense(kernel, X, C), oracle.dense(kernel, C, C)
    beta, offset = ridge.nystrom(K, Kmm, Y, penalty, w if weighted else None, intercept)
    problem = LeastSquares(
        KernelMatrix(kernel, *tensors(X, C)),
        torch.from_numpy(Y),
        penalty,
        weights=torch.from_numpy(w)[:, None] if weighted else None,
        intercept=intercept,
    )
    solution = SOLVERS[solver](problem)
    expected = K @ beta + offset
    found = K @ solution.coefficients.numpy() + solution.intercept.numpy()
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def solve_equations(problem, sample, tolerance):
    """Falkon's iterations, preconditioned with so many rows or with k(C, C) alone: how many there were, and where."""
    equations = NormalEquations(problem, sample)
    found = conjugate_gradients(
        equations.operator,
        equations.right_side(problem.sides[0]),
        tolerance=tolerance,
        max_iterations=300,
        values_at_zero=problem.value_at_zero,
        near_identity=equations.sharp,
    )
    assert equations.sharp == (sample is not None)
    return found.iterations, problem.finish(equations.coefficients(found.solution), problem.sides[1])


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sample_of_many_rows_saves_iterations(intercept, weighted, dtype):
    """The answer is the same."""
    X, C, Y, w = data(n=4000, m=40, dtype=dtype)
    K = KernelMatrix(gk.Gaussian(1.0), *tensors(X, C))
    weights = torch.from_numpy(w)[:, None] if weighted else None
    problem = LeastSquares(K, torch.from_numpy(Y), 1e-6, weights, intercept)
    quick, slow = (solve_equations(problem, sample, 1e-3)[0] for sample in (320, None))
    assert quick <= 0.7 * slow
    # Rounding of float32 entries, ε‖β‖ in the predictions, grows as the penalty falls: the answers are compared where
    # it is far below the tolerance.
    posed = problem if dtype == np.float64 else LeastSquares(K, torch.from_numpy(Y), 1e-3, weights, intercept)
    answers = (solve_equations(posed, sample, 1e-12)[1] for sample in (320, None))
    found, expected = ((K.widened() @ coefficients + offset).numpy() for coefficients, offset in answers)
    assert np.linalg.norm(found - expected) <= (1e-6 if dtype == np.float64 else 1e-4) * np.linalg.norm(expected)


def test_rows_of_no_weight_are_no_sample():
    X, C, Y, _ = data(n=4000, m=40)
    sampled = np.linspace(0, 3999, 320).astype(int)
    weighty = np.setdiff1d(np.arange(4000), sampled)[::11]
    w = np.zeros((4000, 1))
    w[weighty] = 1.0
    K = KernelMatrix(gk.Gaussian(1.0), *tensors(X, C))
    problem = LeastSquares(K, torch.from_numpy(Y), 1e-4, torch.from_numpy(w))
    assert not NormalEquations(problem, 320).sharp
    found = falkon(problem, tolerance=1e-13, max_iterations=400)
    few = KernelMatrix(gk.Gaussian(1.0), *tensors(X[weighty], C))
    expected = direct(LeastSquares(few, torch.from_numpy(Y[weighty]), 1e-4))
    assert (K @ (found.coefficients - expected.coefficients)).abs().max() <= 1e-6


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_agrees_with_the_dense_minimizer(intercept, weighted):
    X, _, Y, w = data(n=80)
    kernel = KERNELS[0]
    K = oracle.dense(kernel, X, X)
    beta, offset = ridge.nystrom(K, K, Y, 1e-3, w if weighted else None, intercept)
    weights = torch.from_numpy(w)[:, None] if weighted else None
    solution = exact(
        LeastSquares(KernelMatrix(kernel, torch.from_numpy(X)), torch.from_numpy(Y), 1e-3, weights, intercept)
    )
    expected = K @ beta + offset
    found = K @ solution.coefficients.numpy() + solution.intercept.numpy()
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_points(solver):
    X, C, Y, _ = data(d=8)
    X[np.abs(X) < 0.5] = 0
    C = X[:40].copy()
    kernel = KERNELS[0]
    dense = LeastSquares(KernelMatrix(kernel, *tensors(X, C)), torch.from_numpy(Y), 1e-4)
    thin = LeastSquares(KernelMatrix(kernel, sparse.csr_array(X), sparse.csr_array(C)), torch.from_numpy(Y), 1e-4)
    K = oracle.dense(kernel, X, C)
    a, b = (K @ SOLVERS[solver](p).coefficients.numpy() for p in (dense, thin))
    # The objective is exact to 1e-13 of itself, and so predictions to the root of it; preconditioners may differ.
    assert np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(b)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalty", [1e-2, 1e-4, 1e-6, 1e-8, 1e-9])
def test_float32_ends_at_the_float64_answer(solver, penalty):
    """Test error within 1 % of the dense float64 solution's, on a smooth problem that defeats a float32 solver."""
    rng = np.random.default_rng(0)
    truth = lambda X: np.sin(3 * X[:, :1]) * np.cos(2 * X[:, 1:2]) + 0.5 * np.sin(5 * X[:, 2:])  # noqa: E731
    X, Z = (rng.uniform(-1, 1, size=(n, 3)).astype(np.float32) for n in (4000, 2000))
    Y, target = (truth(A.astype(float)) + 0.25 * rng.normal(size=(len(A), 1)) for A in (X, Z))
    C, kernel = X[:300], gk.Gaussian(0.5)
    wide = [A.astype(np.float64) for A in (X, C, Z)]
    beta, _ = ridge.nystrom(oracle.dense(kernel, wide[0], wide[1]), oracle.dense(kernel, wide[1], wide[1]), Y, penalty)
    best = np.sqrt(np.mean((oracle.dense(kernel, wide[2], wide[1]) @ beta - target) ** 2))

    problem = LeastSquares(KernelMatrix(kernel, *tensors(X, C)), torch.from_numpy(Y.astype(np.float32)), penalty)
    solution = falkon(problem, max_iterations=150) if solver == "falkon" else direct(problem)
    prediction = KernelMatrix(kernel, *tensors(Z, C)) @ solution.coefficients.float()
    assert np.sqrt(np.mean((prediction.numpy() - target) ** 2)) <= 1.01 * best


def test_jitter_does_not_act_as_a_penalty():
    """Duplicate centers force jitter; the answer must not notice."""
    X, C, Y, _ = data()
    doubled = np.concatenate([C, C])
    kernel = KERNELS[0]
    problem = LeastSquares(KernelMatrix(kernel, *tensors(X, doubled)), torch.from_numpy(Y), 1e-6)
    solution = tight_falkon(problem)
    assert solution.record.jitter > 0
    K, Kmm = oracle.dense(kernel, X, C), oracle.dense(kernel, C, C)
    beta, _ = ridge.nystrom(K, Kmm, Y, 1e-6)
    found = oracle.dense(kernel, X, doubled) @ solution.coefficients.numpy()
    assert np.linalg.norm(found - K @ beta) <= 1e-6 * np.linalg.norm(K @ beta)


def test_warm_start_begins_at_the_answer():
    X, C, Y, _ = data()
    make = lambda: LeastSquares(KernelMatrix(KERNELS[0], *tensors(X, C)), torch.from_numpy(Y), 1e-4)  # noqa: E731
    first = falkon(make(), tolerance=1e-10)
    again = falkon(make(), tolerance=1e-6, start=first.coefficients)
    assert first.record.iterations > 10
    assert again.record.iterations <= 8  # what it takes to see that nothing moves


def test_the_callback_sees_coefficients_and_can_stop():
    X, C, Y, _ = data()
    seen = []

    def callback(step):
        seen.append((step.solution()[0].shape, step.residual, step.objective))
        return step.iteration == 2

    solution = falkon(
        LeastSquares(KernelMatrix(KERNELS[0], *tensors(X, C)), torch.from_numpy(Y), 1e-8), callback=callback
    )
    assert solution.record.iterations == 2
    assert seen[0][0] == (40, 2)
    assert seen[1][1:] == (solution.record.residuals[2], solution.record.objective_history[2])


@pytest.mark.parametrize("solver", SOLVERS)
def test_penalty_zero_gives_a_finite_least_squares_fit(solver):
    X, C, Y, _ = data(t=1)
    solution = SOLVERS[solver](LeastSquares(KernelMatrix(KERNELS[0], *tensors(X, C)), torch.from_numpy(Y), 0.0))
    K = oracle.dense(KERNELS[0], X, C)
    best = np.linalg.lstsq(K, Y, rcond=None)[0]
    gap = lambda beta: np.linalg.norm(K @ beta - Y)  # noqa: E731
    assert gap(solution.coefficients.numpy()) <= gap(best) * (1 + 1e-6)


def test_bad_problems_are_named():
    X, C, Y, _ = data()
    K = KernelMatrix(KERNELS[0], *tensors(X, C))
    with pytest.raises(ValueError, match="penalty"):
        LeastSquares(K, torch.from_numpy(Y), -1.0)
    with pytest.raises(ValueError, match="Y"):
        LeastSquares(K, torch.from_numpy(Y)[:5], 1.0)
    with pytest.raises(TypeError, match=r"Y must be a tensor of torch.float64.*torch.as_tensor"):
        LeastSquares(K, torch.from_numpy(Y).float(), 1.0)
    with pytest.raises(TypeError, match="Y must be a tensor"):
        LeastSquares(K, Y, 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_targets_that_are_no_numbers_are_named(bad):
    X, C, Y, _ = data()
    Y[-1, 0] = bad
    with pytest.raises(ValueError, match="Y must be finite"):
        LeastSquares(KernelMatrix(KERNELS[0], *tensors(X, C)), torch.from_numpy(Y), 1.0)


def test_large_targets_are_numbers():
    X, C, Y, _ = data()
    Y[:] = np.finfo(float).max
    LeastSquares(KernelMatrix(KERNELS[0], *tensors(X, C)), torch.from_numpy(Y), 1.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda w: -w, "zero or more"),
        (lambda w: 0 * w, "not all zero"),
        (lambda w: w / 0, "finite"),
        (lambda w: w * float("nan"), "finite"),
        (lambda w: w[:, 0], "shape"),
        (lambda w: w[:5], "shape"),
    ],
    ids=["negative", "zero", "infinite", "nan", "flat", "few"],
)
def test_weights_that_are_none_are_named(change, named):
    X, C, Y, _ = data()
    K = KernelMatrix(KERNELS[0], *tensors(X, C))
    with pytest.raises(ValueError, match=f"weights.*{named}"):
        LeastSquares(K, torch.from_numpy(Y), 1.0, change(torch.ones(len(Y), 1, dtype=torch.float64)))


@pytest.mark.parametrize("shape", [(30, 2), (30,), (29, 1), (1, 30)])
def test_a_start_of_another_shape_is_named(shape):
    X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    problem = LeastSquares(KernelMatrix(KERNELS[0], X, X[::10]), torch.sin(X), 1e-6)
    with pytest.raises(ValueError, match=r"start must have shape \(30, 1\)"):
        falkon(problem, start=torch.zeros(shape))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_without_a_penalty_records_what_rows_that_contradict_each_other_leave(weighted, intercept):
    X = torch.tensor([[0.0], [0.0], [5.0]], dtype=torch.float64)
    Y = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    w = torch.tensor([[1.0], [3.0], [2.0]], dtype=torch.float64) if weighted else None
    problem = LeastSquares(KernelMatrix(KERNELS[0], X), Y, 0.0, w, intercept, floor=np.array([0.5, 0.25]))
    solution = exact(problem)
    errors = (problem.K @ solution.coefficients + solution.intercept - Y).square()
    expected = errors.mean(0) if w is None else (w * errors).sum(0) / w.sum()
    assert float(expected[0]) > 0.4
    np.testing.assert_allclose(solution.record.objective, expected + torch.tensor([0.5, 0.25]), rtol=1e-10)


def test_a_singular_system_gets_its_minimum_norm_solution():
    B = np.random.default_rng(0).normal(size=(6, 3))
    A, b = B @ B.T, (B @ B.T) @ np.ones((6, 1))
    solved = solve_positive(np.asfortranarray(A), b)
    np.testing.assert_allclose(solved, np.linalg.pinv(A) @ b, atol=1e-8)
