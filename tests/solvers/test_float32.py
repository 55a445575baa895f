"""float32 points: the float64 answer, in float32 where that will do and in float64 where it will not."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon import KernelMatrix
from gyrfalcon.kernels import Gaussian
from gyrfalcon.solvers import LeastSquares
from reference.ridge import nystrom
from reference.solving import direct, falkon

random = np.random.default_rng(0)
X = random.uniform(-1, 1, (1500, 3)).astype(np.float32)
y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + X[:, 2] ** 2 + 0.02 * random.normal(size=1500)
C = X[:150].copy()
TRAIN, TEST = slice(1000), slice(1000, None)
KERNEL = Gaussian(1.0)


def dense_error(penalty):
    wide = X.astype(np.float64)
    centers = C.astype(np.float64)
    beta, _ = nystrom(KERNEL(wide[TRAIN], centers), KERNEL(centers), y[TRAIN, None], penalty)
    return np.sqrt(np.mean((KERNEL(wide[TEST], centers) @ beta - y[TEST, None]) ** 2))


@pytest.mark.parametrize("penalty", [10.0**-k for k in range(2, 10)])
@pytest.mark.parametrize("solver", ["falkon", "direct"])
def test_test_error_is_that_of_the_dense_float64_solution(solver, penalty):
    how = gf.solvers.Falkon(1e-4, 300) if solver == "falkon" else solver
    model = gf.KernelRegressor(KERNEL, centers=C, penalty=penalty, solver=how, fit_intercept=False).fit(
        X[TRAIN], y[TRAIN].astype(np.float32)
    )
    error = np.sqrt(np.mean((model.predict(X[TEST]) - y[TEST]) ** 2))
    assert error <= 1.01 * dense_error(penalty)


def problem(penalty, budget=10**9):
    K = KernelMatrix(KERNEL, torch.from_numpy(X[TRAIN]), torch.from_numpy(C), memory_budget=budget)
    return LeastSquares(K, torch.from_numpy(y[TRAIN, None].astype(np.float32)), penalty)


def test_only_hard_problems_go_on_in_float64():
    assert "float64" not in falkon(problem(1e-3)).record.message
    hard = falkon(problem(1e-10), max_iterations=200).record
    assert "iterations in float64" in hard.message
    assert len(hard.residuals) == len(hard.objective_history) == hard.iterations + 1


def test_not_where_the_points_would_not_fit():
    assert "float64" not in falkon(problem(1e-10, budget=10_000), max_iterations=200).record.message


def test_steps_are_numbered_through_and_stops_respected():
    seen = []
    falkon(problem(1e-10), max_iterations=200, callback=lambda step: seen.append(step.iteration))
    assert seen == list(range(1, len(seen) + 1))
    stopped = falkon(problem(1e-10), max_iterations=200, callback=lambda step: step.iteration == 7)
    assert stopped.record.iterations == 7


def test_the_objective_of_the_direct_solver_is_the_true_one():
    solution = direct(problem(1e-8))
    wide, centers = X[TRAIN].astype(np.float64), C.astype(np.float64)
    beta = solution.coefficients.numpy()
    gap = KERNEL(wide, centers) @ beta - y[TRAIN, None].astype(np.float32)
    true = np.mean(gap**2) + 1e-8 * float((beta.T @ KERNEL(centers) @ beta)[0, 0])
    assert solution.record.objective[0] == pytest.approx(true, rel=1e-3)
