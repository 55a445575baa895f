"""All sizes and penalties at once, against a solve for each."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.matrix.native_engine import NativeEngine
from gyrfalcon.solvers import LeastSquares, nystrom_path, plot_surface
from gyrfalcon.solvers.paths.size_path import leading_solutions
from gyrfalcon.solvers.stopping import Split
from reference import kernels as oracle
from reference import rank_one, ridge
from reference.solving import direct

KERNEL = gk.Gaussian(0.8)
SIZES, PENALTIES = [1, 7, 20, 40], [1e-6, 1e-4, 1e-2]


def data(n=250, m=40, d=3, t=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    Y = (np.sin(X[:, :1] * np.arange(1, t + 1)) + 2 + 0.3 * rng.normal(size=(n, t))).astype(dtype)
    return X, X[:m].copy(), Y, rng.integers(0, 4, size=n).astype(dtype)


def problem_of(X, C, Y, weights=None, intercept=False, penalty=1.0, kernel=KERNEL):
    column = None if weights is None else torch.from_numpy(weights)[:, None]
    X, C = (points if sparse.issparse(points) else torch.from_numpy(points) for points in (X, C))
    return LeastSquares(KernelMatrix(kernel, X, C), torch.from_numpy(Y), penalty, column, intercept)


def predictions(solution, K):
    return K @ solution.coefficients.numpy() + solution.intercept.numpy()


def gap(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(("weighted", "intercept"), [(False, False), (True, False), (False, True), (True, True)])
def test_solutions_are_those_of_separate_solves(weighted, intercept):
    X, C, Y, w = data()
    w = w if weighted else None
    path = nystrom_path(problem_of(X, C, Y, w, intercept), sizes=SIZES, penalties=PENALTIES)
    for size in SIZES:
        for penalty in PENALTIES:
            alone = direct(problem_of(X, C[:size], Y, w, intercept, penalty))
            found = path.solution(size, penalty)
            K = oracle.dense(KERNEL, X, C[:size])
            assert gap(predictions(found, K), predictions(alone, K)) <= 1e-8
            np.testing.assert_allclose(found.record.objective, alone.record.objective, rtol=1e-8)


@pytest.mark.parametrize("validation", [0.3, 4])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, False), (True, True)])
def test_errors_are_those_of_solves_that_never_saw_the_rows(validation, weighted, intercept):
    X, C, Y, w = data()
    w = w if weighted else np.ones(len(X))
    path = nystrom_path(
        problem_of(X, C, Y, w if weighted else None, intercept),
        sizes=SIZES,
        penalties=PENALTIES,
        validation=validation,
        random_state=2,
    )
    split = Split.of(len(X), validation, 2)
    for row, size in enumerate(SIZES):
        for column, penalty in enumerate(PENALTIES):
            found = []
            for part in split.held:
                seen, held = split.labels != part, split.labels == part
                alone = direct(problem_of(X[seen], C[:size], Y[seen], w[seen], intercept, penalty))
                left = Y[held] - predictions(alone, oracle.dense(KERNEL, X[held], C[:size]))
                found.append(np.average(left**2, axis=0, weights=w[held]).mean())
            assert path.errors[row, column] == pytest.approx(np.mean(found), rel=1e-8)
            assert path.deviations[row, column] == pytest.approx(np.std(found), rel=1e-6, abs=1e-12)


def test_rank_one_updates_give_the_same_path():
    X, C, Y, _ = data(m=15)
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    path = nystrom_path(problem_of(X, C, Y))
    for size, beta in enumerate(rank_one.incremental(K, Kmm, Y, 1e-3), 1):
        assert gap(path.solution(size, 1e-3).coefficients.numpy(), beta) <= 1e-8


def test_rank_one_updates_are_updates():
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(9, 6)), rng.normal(size=6)
    R = np.linalg.cholesky(A.T @ A).T
    up = rank_one.updated(R, x, 1)
    np.testing.assert_allclose(up.T @ up, A.T @ A + np.outer(x, x))
    np.testing.assert_allclose(np.abs(rank_one.updated(up, x, -1)), np.abs(R), atol=1e-12)


def test_leading_solutions_solve_with_leading_blocks():
    rng = np.random.default_rng(0)
    B, right = rng.normal(size=(30, 12)), rng.normal(size=(12, 3))
    matrix, sizes = B.T @ B, np.array([1, 5, 12])
    solved = leading_solutions(matrix, right, sizes)
    for place, size in enumerate(sizes):
        np.testing.assert_allclose(solved[:size, place], np.linalg.solve(matrix[:size, :size], right[:size]))
        assert (solved[size:, place] == 0).all()


def test_a_singular_matrix_is_solved_block_by_block():
    B = np.random.default_rng(0).normal(size=(3, 6))
    matrix = B.T @ B
    matrix[5, 5] -= 1e-9 * matrix[5, 5]  # no Cholesky factor
    right = matrix @ np.ones((6, 1))
    solved = leading_solutions(matrix, right, np.array([2, 6]))
    np.testing.assert_allclose(solved[:2, 0], np.linalg.solve(matrix[:2, :2], right[:2]))
    np.testing.assert_allclose(matrix @ solved[:, 1], right, rtol=1e-6)


def test_the_best_and_the_smallest_that_is_nearly_as_good():
    X, C, Y, _ = data()
    path = nystrom_path(problem_of(X, C, Y), sizes=[1, 5, 10, 20, 40], penalties=PENALTIES)
    errors = np.array([[9, 8, 9], [1.4, 1.5, 9], [1.3, 1.09, 1.05], [1.0, 1.2, 1.1], [1.01, 2, 2]])
    path = dataclasses.replace(path, errors=errors)
    assert path.best == (20, 1e-6)
    assert path.smallest(0.0) == path.best
    assert path.smallest(0.05) == (10, 1e-2)
    assert path.smallest(0.5) == (5, 1e-6)
    best = direct(problem_of(X, C[:20], Y, penalty=1e-6))
    np.testing.assert_allclose(path.solution().coefficients, best.coefficients, rtol=1e-6)


def test_grids_that_are_not_given():
    X, C, Y, _ = data()
    path = nystrom_path(problem_of(X, C, Y), sizes=6, penalties=5)
    assert path.sizes[0] == 10
    assert path.sizes[-1] == 40
    assert len(path.sizes) == 6
    np.testing.assert_allclose(path.penalties[[0, -1]], [1e-7 / 250, 10 / 250])
    assert path.errors.shape == (6, 5)
    counted = nystrom_path(problem_of(X, C, Y), sizes=np.int64(6), penalties=np.int64(5))
    np.testing.assert_array_equal(counted.errors, path.errors)
    assert nystrom_path(problem_of(X, C[:3], Y)).sizes.tolist() == [3]


def test_float32_points_give_the_float64_path():
    X, C, Y, _ = data(dtype=np.float32)
    narrow = nystrom_path(problem_of(X, C, Y), sizes=SIZES, penalties=PENALTIES)
    wide = nystrom_path(problem_of(*(A.astype(np.float64) for A in (X, C, Y))), sizes=SIZES, penalties=PENALTIES)
    np.testing.assert_allclose(narrow.errors, wide.errors, rtol=1e-8)


def test_sparse_points():
    X, _, Y, _ = data(d=8)
    X[np.abs(X) < 0.5] = 0
    C = X[:40].copy()
    thin = nystrom_path(problem_of(sparse.csr_array(X), sparse.csr_array(C), Y), sizes=SIZES, penalties=PENALTIES)
    dense = nystrom_path(problem_of(X, C, Y), sizes=SIZES, penalties=PENALTIES)
    np.testing.assert_allclose(thin.errors, dense.errors, rtol=1e-8)
    a, b = (path.solution(20, 1e-4).coefficients for path in (thin, dense))
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_duplicate_centers_add_nothing():
    X, C, Y, _ = data(m=20)
    doubled = np.concatenate([C, C])
    path = nystrom_path(problem_of(X, doubled, Y), sizes=[20, 40], penalties=PENALTIES)
    np.testing.assert_allclose(path.errors[0], path.errors[1], rtol=1e-6)
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    beta, _ = ridge.nystrom(K, Kmm, Y, 1e-4)
    found = oracle.dense(KERNEL, X, doubled) @ path.solution(40, 1e-4).coefficients.numpy()
    assert gap(found, K @ beta) <= 1e-6


def test_penalties_too_small_for_a_factorization_are_solved_all_the_same():
    X, C, Y, _ = data(m=20)
    doubled = np.concatenate([C, C])
    path = nystrom_path(problem_of(X, doubled, Y, kernel=gk.Linear(1.0)), sizes=[2, 3, 40], penalties=[1e-300, 1e-12])
    assert np.isfinite(path.errors).all()
    np.testing.assert_allclose(path.errors[1:], path.errors[1, 0], rtol=1e-5)  # three centers span three features
    assert abs(path.errors[0, 0] - path.errors[1, 0]) > 0.1  # two do not


def test_one_pass_over_the_rows(monkeypatch):
    X, C, Y, _ = data()
    seen = []
    plain = NativeEngine.block
    monkeypatch.setattr(NativeEngine, "block", lambda K, *rows: seen.append(rows) or plain(K, *rows))
    path = nystrom_path(problem_of(X, C, Y), validation=4)
    path.solution()
    assert sum(stop - start for start, stop in seen) == len(X) + len(C)  # once all rows, and once k(C, C)


def test_the_surface_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, C, Y, _ = data()
    path = nystrom_path(problem_of(X, C, Y), sizes=SIZES, penalties=PENALTIES)
    best, smallest = plot_surface(path).get_lines()
    assert (best.get_xdata()[0], best.get_ydata()[0]) == path.best
    assert (smallest.get_xdata()[0], smallest.get_ydata()[0]) == path.smallest()
    with pytest.raises(ValueError, match="two sizes"):
        plot_surface(nystrom_path(problem_of(X, C, Y), sizes=[5], penalties=PENALTIES))
    pyplot.close("all")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sizes": 0}, "sizes must be a positive"),
        ({"sizes": [3, 41]}, "sizes must be integers between 1 and the 40"),
        ({"sizes": [0, 3]}, "sizes"),
        ({"sizes": [2.5]}, "sizes"),
        ({"penalties": []}, "penalties"),
        ({"penalties": [0.0, 1.0]}, "penalties"),
        ({"validation": None}, "validation"),
        ({"validation": 0.0}, "validation"),
        ({"validation": 251}, "validation=251"),
    ],
)
def test_bad_arguments_are_named(settings, named):
    X, C, Y, _ = data()
    with pytest.raises(ValueError, match=named):
        nystrom_path(problem_of(X, C, Y), **settings)


def test_bad_problems_are_named():
    X, C, Y, _ = data()
    with pytest.raises(ValueError, match="C has no rows"):
        nystrom_path(problem_of(X, C[:0], Y))
    with pytest.raises(ValueError, match="positive definite"):
        nystrom_path(problem_of(X, C, Y, kernel=-1.0 * KERNEL))
    with pytest.raises(ValueError, match="weights"):
        nystrom_path(problem_of(X, C, Y, np.zeros(len(X))))
    path = nystrom_path(problem_of(X, C, Y), sizes=SIZES, penalties=PENALTIES)
    with pytest.raises(ValueError, match="size must lie"):
        path.solution(41, 1e-3)
    with pytest.raises(ValueError, match="slack"):
        path.smallest(-1)
