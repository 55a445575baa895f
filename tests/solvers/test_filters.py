"""Regularizers that stop early, against filters of a spectrum computed by eigendecomposition."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.data import ArraySource
from gyrfalcon.solvers import LeastSquares, Record, plot_filter
from gyrfalcon.solvers.stopping import Split
from reference import filters, ridge
from reference import kernels as oracle
from reference.solving import Rule, direct, kernel_cg, nu_method, nytro, spectral_cutoff

KERNEL = gk.Gaussian(1.0)
ALL = {"validation": None}


def data(n=300, m=40, d=3, t=2, dtype=np.float64, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    Y = (np.sin(X[:, :1] * np.arange(1, t + 1)) + 2 + noise * rng.normal(size=(n, t))).astype(dtype)
    return X, X[:m].copy(), Y, rng.integers(0, 4, size=n).astype(dtype)


def problem_of(X, C, Y, weights=None, intercept=False, penalty=0.0, kernel=KERNEL):
    column = None if weights is None else torch.from_numpy(weights)[:, None]
    points = X if sparse.issparse(X) or isinstance(X, ArraySource) else torch.from_numpy(X)
    C = C if sparse.issparse(C) or isinstance(X, ArraySource) else torch.from_numpy(C)
    return LeastSquares(KernelMatrix(kernel, points, C), torch.from_numpy(Y), penalty, column, intercept)


def predictions(solution, K):
    return K @ solution.coefficients.numpy() + solution.intercept.numpy()


def gap(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


METHODS = {
    "nytro": (nytro, lambda dense, t, step: dense.landweber(t, step)),
    "nu_half": (lambda p, s: nu_method(p, s, nu=0.5), lambda dense, t, step: dense.nu_method(t, step, 0.5)),
    "nu_one": (nu_method, lambda dense, t, step: dense.nu_method(t, step, 1.0)),
    "nu_two": (lambda p, s: nu_method(p, s, nu=2.0), lambda dense, t, step: dense.nu_method(t, step, 2.0)),
    "cg": (kernel_cg, lambda dense, t, step: dense.krylov(t)),
}
CASES = [(False, False, 0.0), (True, False, 0.0), (False, True, 0.0), (True, True, 1e-3)]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("weighted", "intercept", "penalty"), CASES)
@pytest.mark.parametrize("t", [1, 2, 12])
def test_iterates_are_the_filter(name, weighted, intercept, penalty, t):
    X, C, Y, w = data()
    solver, expected = METHODS[name]
    problem = problem_of(X, C, Y, w if weighted else None, intercept, penalty)
    solution = solver(problem, Rule(**ALL, max_iterations=t))
    K = oracle.dense(KERNEL, X, C)
    dense = filters.Dense.of(K, oracle.dense(KERNEL, C, C), Y, penalty, w if weighted else None, intercept)
    v = expected(dense, t, 1 / (1 + penalty))
    assert gap(predictions(solution, K), dense.predict(K, v)) <= 1e-8
    assert solution.record.path.chosen == solution.record.iterations == t
    weights = np.ones(len(Y)) if not weighted else w
    floor = np.average((Y - dense.mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(solution.record.objective, dense.objective(Y, v, floor), rtol=1e-8)


@pytest.mark.parametrize(("weighted", "intercept", "penalty"), CASES)
@pytest.mark.parametrize("k", [1, 7, 25])
def test_cut_off_is_the_truncated_spectrum(weighted, intercept, penalty, k):
    X, C, Y, w = data()
    problem = problem_of(X, C, Y, w if weighted else None, intercept, penalty)
    solution = spectral_cutoff(problem, validation=None, max_components=k)
    K = oracle.dense(KERNEL, X, C)
    dense = filters.Dense.of(K, oracle.dense(KERNEL, C, C), Y, penalty, w if weighted else None, intercept)
    v = dense.cut_off(k)
    assert gap(predictions(solution, K), dense.predict(K, v)) <= 1e-8
    floor = np.average((Y - dense.mean) ** 2, axis=0, weights=w if weighted else None)
    np.testing.assert_allclose(solution.record.objective, dense.objective(Y, v, floor), rtol=1e-8)
    assert len(solution.record.path.steps) == k + 1


def test_with_all_points_as_centers_nytro_is_landweber():
    X, _, Y, _ = data(n=80)
    K = oracle.dense(KERNEL, X, X)
    alpha = filters.landweber_on_points(K, Y, 1.0, 30)
    solution = nytro(
        LeastSquares(KernelMatrix(KERNEL, torch.from_numpy(X)), torch.from_numpy(Y), 0.0),
        Rule(**ALL, max_iterations=30),
    )
    assert gap(predictions(solution, K), K @ alpha) <= 1e-8


@pytest.mark.parametrize("name", ["nytro", "nu_one", "cg"])
def test_many_iterations_on_a_penalized_problem_are_its_minimizer(name):
    X, C, Y, _ = data()
    K = oracle.dense(KERNEL, X, C)
    beta, offset = ridge.nystrom(K, oracle.dense(KERNEL, C, C), Y, 0.05, intercept=True)
    solution = METHODS[name][0](problem_of(X, C, Y, None, True, 0.05), Rule(**ALL, max_iterations=400))
    near = 1e-4 if name == "nu_one" else 1e-9  # what is left falls as 1/t² there, however large the penalty
    assert gap(predictions(solution, K), K @ beta + offset) <= near


SOLVERS = {
    "nytro": nytro,
    "nu": nu_method,
    "cg": kernel_cg,
    "cut": lambda p, s: spectral_cutoff(p, validation=s.validation, random_state=s.random_state),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("validation", [0.3, 4])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, False), (True, True)])
def test_validation_errors_are_those_of_fits_that_never_saw_the_rows(name, validation, weighted, intercept):
    X, C, Y, w = data(n=200, m=25)
    rule = Rule(validation, patience=8, max_iterations=8, random_state=3)
    path = SOLVERS[name](problem_of(X, C, Y, w if weighted else None, intercept), rule).record.path
    split = Split.of(len(X), validation, 3)
    weights = w if weighted else np.ones(len(X))
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    method = {**METHODS, "nu": METHODS["nu_one"], "cut": (None, lambda dense, t, _: dense.cut_off(t))}[name][1]
    for t in (1, 5):
        squares, total = 0.0, 0.0
        for part in split.held:
            seen, held = split.labels != part, split.labels == part
            dense = filters.Dense.of(K[seen], Kmm, Y[seen], 0.0, weights[seen], intercept)
            left = Y[held] - dense.predict(K[held], method(dense, t, 1.0))
            squares += np.sum(weights[held, None] * left**2)
            total += weights[held].sum() * Y.shape[1]
        assert path.errors[t] == pytest.approx(squares / total, rel=1e-8)


@pytest.mark.parametrize("name", ["nytro", "nu", "cg"])
@pytest.mark.parametrize(("patience", "tolerance"), [(3, 0.0), (3, 0.02), (15, 1e-4)])
def test_stops_when_patience_ends_and_takes_the_minimum(name, patience, tolerance):
    X, C, Y, _ = data(n=150, m=60, noise=1.0)
    long = Rule(0.3, patience=300, tolerance=0.0, max_iterations=300)
    errors = SOLVERS[name](problem_of(X, C, Y), long).record.path.errors
    stop, chosen = filters.patient_minimum(errors, patience, tolerance)
    solution = SOLVERS[name](problem_of(X, C, Y), dataclasses.replace(long, patience=patience, tolerance=tolerance))
    path = solution.record.path
    assert (len(path.steps) - 1, path.chosen) == (stop, chosen)
    assert 0 < chosen <= stop - (tolerance == 0) < 299
    np.testing.assert_allclose(path.errors, errors[: stop + 1], rtol=1e-9)
    all_rows = SOLVERS[name](problem_of(X, C, Y), Rule(**ALL, max_iterations=chosen))
    np.testing.assert_allclose(solution.coefficients, all_rows.coefficients, rtol=1e-6, atol=1e-9)
    assert path.objectives[chosen] == pytest.approx(all_rows.record.path.objectives[-1])


def test_cut_off_takes_the_minimum():
    X, C, Y, _ = data(n=150, m=60, noise=1.0)
    path = spectral_cutoff(problem_of(X, C, Y), validation=5).record.path
    assert path.chosen == np.argmin(path.errors)
    assert 0 < path.chosen < 59
    solution = spectral_cutoff(problem_of(X, C, Y), validation=None, max_components=path.chosen)
    again = spectral_cutoff(problem_of(X, C, Y), validation=5)
    np.testing.assert_allclose(solution.coefficients, again.coefficients, rtol=1e-7)


def test_pure_noise_is_left_alone():
    X, C, _, _ = data(n=150, m=60)
    Y = np.random.default_rng(5).normal(size=(150, 1))
    solution = nytro(problem_of(X, C, Y), Rule(5))
    errors = solution.record.path.errors
    assert min(errors) >= 0.97 * errors[0]
    assert solution.record.path.chosen <= 3


@pytest.mark.parametrize("name", SOLVERS)
def test_float32_predicts_as_float64_does(name):
    X, C, Y, _ = data(dtype=np.float32)
    wide = [A.astype(np.float64) for A in (X, C, Y)]
    K = oracle.dense(KERNEL, *wide[:2])
    rule = Rule(0.2, patience=12, max_iterations=12)
    narrow, full = SOLVERS[name](problem_of(X, C, Y), rule), SOLVERS[name](problem_of(*wide), rule)
    assert narrow.record.path.chosen == full.record.path.chosen
    assert gap(predictions(narrow, K), predictions(full, K)) <= 1e-4
    np.testing.assert_allclose(narrow.record.path.errors, full.record.path.errors, rtol=1e-4)


def test_the_jitter_of_float32_is_no_penalty():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3)).astype(np.float32)
    Y = (np.sin(4 * X[:, :1]) + 0.02 * rng.normal(size=(600, 1))).astype(np.float32)
    K, Kmm = (oracle.dense(KERNEL, A.astype(np.float64), X[:100].astype(np.float64)) for A in (X, X[:100]))
    beta, _ = ridge.nystrom(K, Kmm, Y.astype(np.float64), 1e-4)
    solution = kernel_cg(problem_of(X, X[:100], Y, penalty=1e-4), Rule(**ALL, max_iterations=60))
    assert gap(predictions(solution, K), K @ beta) <= 4e-4  # 1.6e-3 if the jitter is left in


@pytest.mark.parametrize("name", SOLVERS)
def test_sparse_points(name):
    X, _, Y, _ = data(d=8)
    X[np.abs(X) < 0.5] = 0
    C = X[:40].copy()
    rule = Rule(3, patience=6, max_iterations=6)
    thin = SOLVERS[name](problem_of(sparse.csr_array(X), sparse.csr_array(C), Y), rule)
    dense = SOLVERS[name](problem_of(X, C, Y), rule)
    K = oracle.dense(KERNEL, X, C)
    assert gap(predictions(thin, K), predictions(dense, K)) <= 1e-8


def test_points_that_are_read_are_held_out_in_runs():
    X, C, Y, _ = data()
    rule = Rule(3, patience=6, max_iterations=6)
    solution = kernel_cg(problem_of(ArraySource(X, dtype=np.float64), C, Y), rule)
    K, Kmm = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    squares = 0.0
    for part in range(3):
        held = np.arange(300) // 100 == part
        dense = filters.Dense.of(K[~held], Kmm, Y[~held])
        squares += np.sum((Y[held] - dense.predict(K[held], dense.krylov(4))) ** 2)
    assert solution.record.path.errors[4] == pytest.approx(squares / Y.size, rel=1e-8)


@pytest.mark.parametrize("name", SOLVERS)
def test_duplicate_centers_change_nothing(name):
    X, C, Y, _ = data()
    doubled = np.concatenate([C, C])
    rule = Rule(0.2, patience=10, max_iterations=10)
    twice, once = SOLVERS[name](problem_of(X, doubled, Y), rule), SOLVERS[name](problem_of(X, C, Y), rule)
    assert twice.record.jitter > 0
    K = oracle.dense(KERNEL, X, C)
    found = oracle.dense(KERNEL, X, doubled) @ twice.coefficients.numpy()
    assert gap(found, predictions(once, K)) <= 1e-6


def test_one_pass_an_iteration(monkeypatch):
    """Rows of K that products go through, counted: all folds and their errors cost no more than the model."""
    X, C, Y, _ = data()
    rows = []
    plain = KernelMatrix.gram_mv
    monkeypatch.setattr(KernelMatrix, "gram_mv", lambda K, *a, **k: rows.append(K.shape[0]) or plain(K, *a, **k))
    solution = nytro(problem_of(X, C, Y), Rule(5, patience=7, max_iterations=7))
    assert sum(rows) == solution.record.iterations * len(X)


def test_the_callback_sees_the_fit_to_all_rows_and_can_stop():
    X, C, Y, _ = data()
    seen = []

    def callback(step):
        seen.append(step.solution())
        return step.iteration == 3

    solution = nu_method(problem_of(X, C, Y), Rule(0.2, patience=50), callback=callback)
    assert len(seen) == solution.record.iterations == 3
    assert not solution.record.converged
    assert torch.equal(seen[solution.record.path.chosen - 1][0], solution.coefficients)


@pytest.mark.parametrize("name", SOLVERS)
def test_constant_targets_leave_only_the_intercept(name):
    X, C, Y, _ = data()
    solution = SOLVERS[name](problem_of(X, C, np.full_like(Y, 3.0), intercept=True), Rule())
    np.testing.assert_allclose(predictions(solution, oracle.dense(KERNEL, X, C)), 3.0, rtol=1e-9)


def test_records_survive_json():
    X, C, Y, _ = data()
    record = kernel_cg(problem_of(X, C, Y)).record
    assert Record(**json.loads(json.dumps(dataclasses.asdict(record)))) == record


def test_the_plot_shows_the_path():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, C, Y, _ = data()
    solution = spectral_cutoff(problem_of(X, C, Y))
    objective, error, mark = plot_filter(solution).get_lines()
    path = solution.record.path
    np.testing.assert_array_equal(objective.get_ydata(), path.objectives)
    np.testing.assert_array_equal(error.get_ydata(), path.errors)
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (path.chosen, min(path.errors))
    with pytest.raises(ValueError, match="nytro"):
        plot_filter(direct(problem_of(X, C, Y, penalty=0.1)))
    pyplot.close("all")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"validation": 1.5}, "validation"),
        ({"validation": 1}, "validation"),
        ({"validation": True}, "validation"),
        ({"patience": 0}, "patience"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"max_iterations": 2.5}, "max_iterations"),
    ],
)
def test_bad_rules_are_named(settings, named):
    with pytest.raises(ValueError, match=named):
        Rule(**settings)


def test_bad_arguments_are_named():
    X, C, Y, _ = data()
    problem = problem_of(X, C, Y)
    with pytest.raises(ValueError, match="step must"):
        nytro(problem, step=-1.0)
    with pytest.raises(ValueError, match="step is too large"):
        nytro(problem, Rule(**ALL), step=50.0)
    with pytest.raises(ValueError, match="step is too large"):
        nu_method(problem, step=50.0)
    with pytest.raises(ValueError, match="nu must"):
        nu_method(problem, nu=0.0)
    with pytest.raises(ValueError, match="max_components"):
        spectral_cutoff(problem, max_components=0)
    with pytest.raises(ValueError, match="validation=400"):
        nytro(problem, Rule(400))
    for solver in SOLVERS.values():
        with pytest.raises(ValueError, match="C has no rows"):
            solver(problem_of(X, C[:0], Y), Rule())
        with pytest.raises(ValueError, match="positive definite"):
            solver(problem_of(X, C, Y, kernel=-1.0 * KERNEL), Rule())
        held = (Split.of(len(X), 0.2, 0).labels == 1).astype(float)
        with pytest.raises(ValueError, match="zero for all rows that are held out"):
            solver(problem_of(X, C, Y, 1 - held), Rule())
        with pytest.raises(ValueError, match="zero but for the rows that are held out"):
            solver(problem_of(X, C, Y, held), Rule())
