"""EigenPro 2 and 3 against dense float64 solutions."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.data import ArraySource
from gyrfalcon.solvers import LeastSquares, eigenpro_stream
from reference import RADIAL, descent, relative_error, ridge
from reference import kernels as oracle
from reference.solving import eigenpro, falkon

KERNEL = gk.Laplacian(2.0)


def data(n=200, p=40, d=3, t=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    Y = (np.sin(X[:, :1] * np.arange(1, t + 1)) + 0.5 + 0.1 * rng.normal(size=(n, t))).astype(dtype)
    return X, rng.normal(size=(p, d)).astype(dtype), Y


def problem(X, C, Y, penalty=0.0, kernel=KERNEL, weights=None, intercept=False):
    K = KernelMatrix(kernel, torch.from_numpy(X), None if C is None else torch.from_numpy(C))
    weights = None if weights is None else torch.from_numpy(weights)[:, None]
    return LeastSquares(K, torch.from_numpy(Y), penalty, weights, intercept)


def predictions(solution, X, C, kernel=KERNEL):
    return oracle.dense(kernel, X, C) @ solution.coefficients.numpy() + solution.intercept.numpy()


@pytest.mark.parametrize(("batch", "functions"), [(None, None), (30, None), (50, 30)])
def test_eigenpro_3_ends_at_the_least_squares_solution(batch, functions):
    X, _, Y = data()
    C = X[:40].copy()
    solution = eigenpro(problem(X, C, Y), tolerance=1e-6, max_iterations=300, batch_size=batch, n_functions=functions)
    assert solution.record.converged
    K = oracle.dense(KERNEL, X, C)
    best = descent.least_squares(K, Y)
    assert relative_error(predictions(solution, X, C), best) <= 1e-4
    other = descent.preconditioned_first(K, oracle.dense(KERNEL, X, X), Y, 20)
    assert relative_error(other, best) > 1e-2  # so that ending there would be seen


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_eigenpro_3_with_a_penalty_weights_and_an_intercept(intercept, weighted):
    X, C, Y = data()
    weights = np.random.default_rng(1).integers(1, 4, size=len(X)).astype(float) if weighted else None
    solution = eigenpro(
        problem(X, C, Y, 1e-2, weights=weights, intercept=intercept), tolerance=1e-6, max_iterations=300, batch_size=50
    )
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    beta, offset = ridge.nystrom(K, Kmm, Y, 1e-2, weights, intercept)
    assert relative_error(predictions(solution, X, C), K @ beta + offset) <= 1e-4
    value = ridge.objective(K, Kmm, Y, 1e-2, beta, offset, weights)
    np.testing.assert_allclose(solution.record.objective, value, rtol=1e-4)


def test_eigenpro_2_interpolates_and_equals_the_exact_solution():
    X, _, Y = data()
    solution = eigenpro(problem(X, None, Y), tolerance=1e-7, max_iterations=300, batch_size=50, n_functions=30)
    assert solution.record.converged
    assert relative_error(predictions(solution, X, X), Y) <= 1e-6
    alpha = descent.interpolant(oracle.dense(KERNEL, X, X), Y)
    fresh = np.random.default_rng(5).normal(size=(50, 3))
    exact = oracle.dense(KERNEL, fresh, X) @ alpha
    assert relative_error(predictions(solution, fresh, X), exact) <= 1e-5


@pytest.mark.parametrize("intercept", [False, True])
def test_eigenpro_2_with_a_penalty_and_an_intercept(intercept):
    X, _, Y = data()
    solution = eigenpro(
        problem(X, None, Y, 1e-3, intercept=intercept),
        tolerance=1e-7,
        max_iterations=300,
        batch_size=50,
        sample_size=100,
    )
    K = oracle.dense(KERNEL, X, X)
    beta, offset = ridge.nystrom(K, K, Y, 1e-3, None, intercept)
    assert relative_error(predictions(solution, X, X), K @ beta + offset) <= 1e-5
    np.testing.assert_allclose(solution.record.objective, ridge.objective(K, K, Y, 1e-3, beta, offset), rtol=1e-4)


@pytest.mark.parametrize("centers", [False, True])
def test_float32(centers):
    X, C, Y = data(dtype=np.float32)
    C = C if centers else None
    solution = eigenpro(problem(X, C, Y), tolerance=1e-4, max_iterations=200)
    Z = X if C is None else C
    best = Y if C is None else descent.least_squares(oracle.dense(KERNEL, X, C), Y.astype(float))
    assert relative_error(predictions(solution, X, Z), best.astype(float)) <= 2e-3


def test_more_centers_than_points_interpolate():
    X, C, Y = data(n=60, p=150)
    solution = eigenpro(problem(X, C, Y), tolerance=1e-7, max_iterations=400, batch_size=20)
    assert relative_error(predictions(solution, X, C), Y) <= 1e-4


def test_the_inexact_projection_ends_near_the_exact_one():
    X, C, Y = data(n=120, p=30)
    options = {"tolerance": 1e-6, "max_iterations": 150, "batch_size": 40}
    exact = eigenpro(problem(X, C, Y), projection="exact", **options)
    inexact = eigenpro(problem(X, C, Y), projection="inexact", **options)
    assert "inexact" in inexact.record.reason
    assert inexact.record.jitter == 0
    assert relative_error(predictions(inexact, X, C), predictions(exact, X, C)) <= 1e-2
    begun = relative_error(np.zeros_like(Y), predictions(exact, X, C))
    assert begun > 0.5


def test_inexact_projections_do_not_move_the_end_of_a_penalized_descent():
    X, C, Y = data(n=120, p=30)
    solution = eigenpro(problem(X, C, Y, 1e-2), projection="inexact", tolerance=1e-5, max_iterations=200, batch_size=40)
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    assert relative_error(predictions(solution, X, C), K @ ridge.nystrom(K, Kmm, Y, 1e-2)[0]) <= 1e-3


@pytest.mark.parametrize("centers", [False, True])
def test_outputs_do_not_know_of_each_other(centers):
    X, C, Y = data(t=3)
    C = C if centers else None
    together = eigenpro(problem(X, C, Y), tolerance=0.0, max_iterations=5).coefficients
    alone = [eigenpro(problem(X, C, Y[:, [i]]), tolerance=0.0, max_iterations=5).coefficients for i in range(3)]
    np.testing.assert_allclose(together, torch.cat(alone, 1), rtol=1e-9, atol=1e-9 * float(together.abs().max()))


@pytest.mark.parametrize("centers", [False, True])
def test_the_seed_decides_every_bit(centers):
    X, C, Y = data()
    C = C if centers else None
    options = {"tolerance": 0.0, "max_iterations": 3, "batch_size": 40, "sample_size": 30}
    first, again, other = (eigenpro(problem(X, C, Y), random_state=seed, **options).coefficients for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_order_of_rows_does_not_matter_in_the_end():
    X, C, Y = data()
    order = np.argsort(Y[:, 0])  # sorted rows are what unshuffled batches would stumble over
    options = {"tolerance": 1e-6, "max_iterations": 300, "batch_size": 40}
    first = eigenpro(problem(X, C, Y), **options)
    sorted_ = eigenpro(problem(X[order], C, Y[order]), **options)
    assert relative_error(predictions(sorted_, X, C), predictions(first, X, C)) <= 2e-4


@pytest.mark.parametrize("projection", ["exact", "inexact"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicate_centers_are_harmless(projection, dtype):
    X, C, Y = data(n=120, p=30, dtype=dtype)
    doubled = np.concatenate([C, C, C[:5]])
    solution = eigenpro(problem(X, doubled, Y), projection=projection, tolerance=1e-4, max_iterations=60, batch_size=40)
    best = descent.least_squares(oracle.dense(KERNEL, X, C), Y.astype(float))
    assert relative_error(predictions(solution, X, doubled), best) <= 0.02


def test_points_that_contradict_each_other():
    X, _, Y = data(n=100)
    twice, opposed = np.concatenate([X, X]), np.concatenate([Y + 1, Y - 1])
    solution = eigenpro(problem(twice, None, opposed), max_iterations=60, batch_size=200)
    assert not solution.record.converged
    assert relative_error(predictions(solution, X, twice), Y) <= 0.1  # between the two


@pytest.mark.parametrize("centers", [False, True])
def test_a_kernel_that_vanishes_gives_zero(centers):
    X, C, Y = data(n=20, p=5)
    solution = eigenpro(problem(0 * X, 0 * C if centers else None, Y, kernel=gk.Linear()), max_iterations=3)
    assert (solution.coefficients == 0).all()


@pytest.mark.parametrize("centers", [False, True])
def test_a_linear_kernel_of_low_rank(centers):
    X, C, _ = data()
    Y = X @ np.array([[1.0], [2.0], [-1.0]])
    kernel = gk.Linear()
    solution = eigenpro(problem(X, C if centers else None, Y, kernel=kernel), tolerance=1e-7, max_iterations=200)
    assert relative_error(predictions(solution, X, C if centers else X, kernel), Y) <= 1e-4


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    family=st.sampled_from(sorted(RADIAL)),
    scale=st.floats(-2, 2),
    size=st.floats(-3, 3),
    n=st.integers(1, 40),
    centers=st.booleans(),
    batch=st.integers(1, 40),
    sample=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_steps_never_diverge(family, scale, size, n, centers, batch, sample, seed):
    X, C, Y = data(n=n, p=12, d=2, t=1, seed=seed)
    kernel = 10.0**size * RADIAL[family](10.0**scale)
    made = problem(X, C if centers else None, Y, kernel=kernel)
    solution = eigenpro(made, tolerance=0.0, max_iterations=8, batch_size=batch, sample_size=sample, random_state=seed)
    found = predictions(solution, X, C if centers else X, kernel)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found - Y) <= 1.5 * np.linalg.norm(Y) + 1e-6


@pytest.mark.parametrize("centers", [False, True])
def test_a_start_at_the_answer_ends_at_once(centers):
    X, C, Y = data()
    C = C if centers else None
    first = eigenpro(problem(X, C, Y), tolerance=1e-5, max_iterations=300)
    again = eigenpro(problem(X, C, Y), tolerance=1e-4, start=first.coefficients)
    assert first.record.iterations > 3
    assert again.record.iterations == 1


@pytest.mark.parametrize("centers", [False, True])
def test_the_callback_sees_the_model_and_can_stop(centers):
    X, C, Y = data()
    C = C if centers else None
    seen = []

    def callback(step):
        seen.append((step.solution, step.residual, step.objective))
        return step.iteration == 3

    solution = eigenpro(problem(X, C, Y), tolerance=0.0, callback=callback)
    assert solution.record.iterations == 3
    assert [residual for _, residual, _ in seen] == solution.record.residuals
    assert [value for _, _, value in seen] == solution.record.objective_history
    early, late = seen[0][0]()[0], seen[2][0]()[0]
    assert torch.equal(late, solution.coefficients)
    assert not torch.equal(early, late)


def test_the_callback_sees_the_last_epoch_too():
    X, C, Y = data()
    seen = []
    solution = eigenpro(problem(X, C, Y), callback=lambda step: seen.append(step.solution()[0]))
    assert solution.record.converged
    assert len(seen) == solution.record.iterations
    assert torch.equal(seen[-1], solution.coefficients)


@pytest.mark.parametrize("centers", [False, True])
def test_a_snapshot_is_resumed_bit_for_bit(centers):
    X, C, Y = data()
    C = C if centers else None
    options = {"tolerance": 0.0, "max_iterations": 6, "batch_size": 50}
    kept = []
    whole = eigenpro(problem(X, C, Y), keep=lambda take: kept.append(take()), **options)
    rest = eigenpro(problem(X, C, Y), resume=kept[2], **options)
    end = eigenpro(problem(X, C, Y), resume=kept[-1], **options)
    assert len(kept) == 6
    for other in (rest, end):
        assert torch.equal(whole.coefficients, other.coefficients)
        assert whole.record.residuals == other.record.residuals
        assert whole.record.objective == other.record.objective


def test_float32_does_not_wreck_a_start_with_large_coefficients():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1500, 1)).astype(np.float32)
    Y = torch.from_numpy((np.sin(3 * X) + 0.1 * rng.normal(size=X.shape)).astype(np.float32))
    kernel = gk.Gaussian(2.0)
    made = LeastSquares(KernelMatrix(kernel, X, X[:100]), Y, 1e-10, intercept=True)
    start = falkon(made)
    assert float(start.coefficients.norm()) > 1e5
    kept = []
    options = {"start": start.coefficients, "tolerance": 0.0, "max_iterations": 4}
    solution = eigenpro(made, keep=lambda take: kept.append(take()), **options)
    values = oracle.dense(kernel, X.astype(float), X[:100].astype(float)) @ solution.coefficients.numpy()
    assert np.std(values + solution.intercept.numpy() - np.sin(3 * X)) < 0.05
    again = eigenpro(made, resume=kept[1], **{**options, "start": None})
    assert torch.equal(again.coefficients, solution.coefficients)


def test_sparse_points_and_rows_that_are_read_in_chunks():
    X, C, Y = data(d=6)
    X[np.abs(X) < 0.5] = 0
    best = descent.least_squares(oracle.dense(KERNEL, X, C), Y)
    for points, centers in ((sparse.csr_array(X), sparse.csr_array(C)), (ArraySource(X, dtype=X.dtype), C)):
        made = LeastSquares(KernelMatrix(KERNEL, points, centers), torch.from_numpy(Y), 0.0)
        solution = eigenpro(made, tolerance=1e-6, max_iterations=200)
        assert relative_error(predictions(solution, X, C), best) <= 1e-4


@pytest.mark.parametrize("projection", ["exact", "inexact"])
def test_a_stream_of_fresh_batches(projection):
    rng = np.random.default_rng(0)
    C = rng.uniform(-2, 2, size=(40, 2))
    truth = oracle.dense(KERNEL, C, C) @ rng.normal(size=(40, 2))
    beta = np.linalg.solve(oracle.dense(KERNEL, C, C), truth)

    def batches():
        random = np.random.default_rng(1)
        for _ in range(60):
            X = random.uniform(-2, 2, size=(80, 2))
            yield X, oracle.dense(KERNEL, X, C) @ beta

    options = {"projection": projection, "projection_epochs": 20, "n_functions": 40}
    solution = eigenpro_stream(KERNEL, C, batches(), **options)
    assert relative_error(predictions(solution, C, C), truth) <= 0.02


def test_the_average_over_a_stream_has_less_noise_than_its_last_iterate(monkeypatch):
    X, C, _ = data(n=6000)
    beta = np.random.default_rng(2).normal(size=(len(C), 1))
    f = oracle.dense(KERNEL, X, C) @ beta
    Y = f + 2 * np.random.default_rng(3).normal(size=f.shape)
    batches = [(X[i : i + 60], Y[i : i + 60]) for i in range(0, len(X), 60)]
    averaged = eigenpro_stream(KERNEL, C, batches)
    module = sys.modules[eigenpro_stream.__module__]  # by name it is the function, not the module
    monkeypatch.setattr(module, "FORGETTING", 10**9)
    last = eigenpro_stream(KERNEL, C, batches)
    errors = [relative_error(predictions(solution, X, C), f) for solution in (averaged, last)]
    assert errors[0] <= 0.7 * errors[1]


def test_a_stream_goes_on_from_a_start_and_stops_when_told():
    X, C, Y = data()
    first = eigenpro_stream(KERNEL, C, [(X, Y)] * 30)
    again = eigenpro_stream(
        KERNEL, C, [(X, Y)] * 30, start=first.coefficients, callback=lambda step: step.iteration == 2
    )
    assert again.record.iterations == 2
    assert again.record.residuals[0] < first.record.residuals[0] / 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"projection": "rough"}, "projection"),
        ({"projection_epochs": 0}, "projection_epochs"),
        ({"sample_size": 0}, "sample_size"),
        ({"n_functions": -1}, "n_functions"),
        ({"batch_size": 0}, "batch_size"),
        ({"start": torch.zeros(3, 2)}, "start"),
    ],
)
def test_bad_arguments_are_named(options, named):
    X, C, Y = data()
    with pytest.raises(ValueError, match=named):
        eigenpro(problem(X, C, Y), **options)
    if named != "batch_size":
        with pytest.raises(ValueError, match=named):
            eigenpro_stream(KERNEL, C, [(X, Y)], **options)


def test_bad_problems_are_named():
    X, C, Y = data()
    with pytest.raises(ValueError, match="kernel"):
        eigenpro(problem(X, C, Y, kernel=gk.Sigmoid()))
    with pytest.raises(ValueError, match="weights"):
        eigenpro(problem(X, None, Y, weights=np.ones(len(X))))
    with pytest.raises(ValueError, match="rows and centers"):
        eigenpro(problem(X[:0], C, Y[:0]))
    with pytest.raises(ValueError, match="batches"):
        eigenpro_stream(KERNEL, C, [])
    with pytest.raises(ValueError, match="Y has 1 columns"):
        eigenpro_stream(KERNEL, C, [(X, Y), (X, Y[:, :1])])


@pytest.mark.parametrize("centers", ["some", "all"])
def test_estimators_solve_by_it(centers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.sin(2 * X[:, 0]) + 3 + 0.05 * rng.normal(size=600)
    C = X[:60] if centers == "some" else X
    common = {"kernel": gk.Laplacian(3.0), "penalty": 1e-4, "centers": C, "verbose": False}
    known = gf.KernelRegressor(solver="direct", **common).fit(X, y)
    precise = gf.solvers.EigenPro(tolerance=1e-6, max_iterations=300)
    model = gf.KernelRegressor(solver=precise, **common).fit(X, y)
    assert model.record_.solver.startswith("eigenpro")
    np.testing.assert_allclose(model.predict(X), known.predict(X), atol=1e-3)
    labels = (y > 3).astype(int) + (y > 3.5)
    classifier = gf.KernelClassifier(solver="eigenpro", random_state=0, **common).fit(X, labels)
    truth = gf.KernelClassifier(solver="direct", **common).fit(X, labels)
    assert np.mean(classifier.predict(X) == truth.predict(X)) > 0.98
