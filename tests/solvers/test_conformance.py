"""What every solver must do, run over the list of them all: one state, many targets and penalties."""

import dataclasses

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon import losses
from gyrfalcon.matrix import Engine
from gyrfalcon.matrix.native_engine import NativeEngine
from gyrfalcon.solvers import SOLVERS, EarlyStopping, LeastSquares, Risk, solve
from reference import kernels as oracle
from reference import ridge

KERNEL = gf.kernels.Matern(1.0, nu=1.5)
ALL_ROWS = EarlyStopping(validation=None)

# Settings with which a solver comes as near to the minimizer as rounding lets it, and how near that is, relative to the
# predictions. Those that regularize by stopping are let go on until they have converged.
PRECISE = {
    "direct": ({}, 1e-7),
    "exact": ({}, 1e-7),
    "falkon": ({"tolerance": 1e-13, "max_iterations": 400}, 1e-6),
    "newton": ({"tolerance": 1e-10}, 1e-6),
    "smoothed_newton": ({"tolerance": 1e-10}, 1e-6),
    "eigenpro": ({"tolerance": 1e-9, "max_iterations": 2000}, 1e-5),
    "nytro": ({"stopping": ALL_ROWS, "max_iterations": 3000}, 1e-3),
    "nu_method": ({"stopping": ALL_ROWS, "max_iterations": 400}, 1e-3),
    "kernel_cg": ({"stopping": ALL_ROWS, "max_iterations": 60}, 1e-6),
    "spectral_cutoff": ({"validation": None}, 1e-6),
    "sgd": ({"stopping": ALL_ROWS, "step": 0.5, "max_iterations": 400}, 0.05),
}
EVERY = pytest.mark.parametrize("name", sorted(SOLVERS))
PENALTY = 1e-3


def test_the_list_is_complete():
    assert PRECISE.keys() == SOLVERS.keys()


def precise(name):
    return SOLVERS[name](**PRECISE[name][0])


def data(name, *, t=2, seed=0):
    """K, whose centers are the points for the exact solver, dense matrices, targets and weights."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(160, 2))
    C = X if name == "exact" else X[:20].copy()
    Y = np.sin(2 * X[:, :1] + np.arange(t)) + 0.1 * rng.normal(size=(160, t)) + 1.0
    points = torch.from_numpy(X)
    K = gf.KernelMatrix(KERNEL, points, None if name == "exact" else torch.from_numpy(C))
    dense = oracle.dense(KERNEL, X, C), oracle.dense(KERNEL, C, C)
    return K, dense, torch.from_numpy(Y), torch.from_numpy(rng.integers(1, 4, size=(160, 1)).astype(float))


def predictions(dense, solution):
    return dense[0] @ solution.coefficients.numpy() + solution.intercept.numpy()


def distance(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@EVERY
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_reaches_the_dense_minimizer(name, weighted, intercept):
    K, dense, Y, w = data(name)
    solver, (_, tolerance) = precise(name), PRECISE[name]
    weights = w if weighted else None
    solution = solver.solve(solver.prepare(K, weights, intercept), Y, PENALTY)
    beta, offset = ridge.nystrom(*dense, Y.numpy(), PENALTY, w.numpy()[:, 0] if weighted else None, intercept)
    assert distance(predictions(dense, solution), dense[0] @ beta + offset) <= tolerance
    assert solution.record.solver == name
    assert len(solution.record.objective) == 2


@EVERY
def test_another_target_and_another_penalty_on_the_same_state(name):
    K, dense, Y, w = data(name)
    solver = precise(name)
    state = solver.prepare(K, w, intercept=True)
    solver.solve(state, Y, PENALTY)
    others = [(torch.cos(3 * Y[:, :1]).contiguous(), PENALTY), (Y, 10 * PENALTY), (Y, PENALTY)]
    for targets, penalty in others:
        again = solver.solve(state, targets, penalty)
        fresh = solver.solve(solver.prepare(K, w, intercept=True), targets, penalty)
        assert distance(predictions(dense, again), predictions(dense, fresh)) <= 1e-10
        np.testing.assert_allclose(again.record.objective, fresh.record.objective, rtol=1e-8, atol=1e-12)


class Counting(NativeEngine):
    """Counts the entries of K that are made, of all its kind."""

    entries = 0

    def block(self, start, stop):
        Counting.entries += (stop - start) * self.shape[1]
        return super().block(start, stop)

    def multiply(self, V):
        Counting.entries += self.shape[0] * self.shape[1]
        return super().multiply(V)

    def multiply_transposed(self, W, dtype):
        Counting.entries += self.shape[0] * self.shape[1]
        return super().multiply_transposed(W, dtype)

    def multiply_gram(self, V, weights, dtype):
        Counting.entries += self.shape[0] * self.shape[1]
        return super().multiply_gram(V, weights, dtype)


@EVERY
def test_the_second_solve_on_a_state_makes_fewer_entries(name):
    K, _, Y, _ = data(name)
    K = gf.KernelMatrix(KERNEL, K._X.values, None if K.symmetric else K.centers, engine=Counting, cache=False)
    solver = dataclasses.replace(precise(name), **({"max_iterations": 5} if name in ("eigenpro", "sgd") else {}))
    state = None
    counts = []
    for _ in range(2):
        before = Counting.entries
        state = solver.prepare(K, None, True) if state is None else state
        solver.solve(state, Y, PENALTY)
        counts.append(Counting.entries - before)
    assert counts[1] < counts[0]


@EVERY
def test_starts_resumes_and_callbacks_are_honored_or_refused(name):
    K, dense, Y, _ = data(name, t=1)
    solver, traits = precise(name), SOLVERS[name].traits
    known = solver.solve(solver.prepare(K), Y, PENALTY)
    problem = LeastSquares(K, Y, PENALTY)
    start = (known.coefficients, known.intercept)
    if traits.starts:
        warm = solve(problem, solver, start=start)
        assert distance(predictions(dense, warm), predictions(dense, known)) <= 10 * PRECISE[name][1]
    else:
        with pytest.raises(ValueError, match=r"^start"):
            solve(problem, solver, start=start)
    seen = []
    if traits.iterates:
        stopped = solve(problem, solver, callback=lambda step: seen.append(step) or len(seen) == 2)
        assert stopped.record.iterations == len(seen) == 2
    else:
        with pytest.raises(ValueError, match=r"^callback"):
            solve(problem, solver, callback=lambda step: False)
    snapshots = []
    if traits.resumes:
        whole = solve(problem, solver, keep=lambda take: snapshots.append(take()) if len(snapshots) < 2 else None)
        resumed = solve(problem, solver, resume=snapshots[-1])
        assert resumed.coefficients.equal(whole.coefficients)
        assert resumed.intercept.equal(whole.intercept)
    else:
        with pytest.raises(ValueError, match=r"^(keep|resume)"):
            solve(problem, solver, keep=snapshots.append)


@EVERY
def test_an_interrupt_in_the_middle_leaves_a_state_that_still_solves(name):
    K, dense, Y, _ = data(name, t=1)
    solver = precise(name)
    if not solver.traits.iterates:
        pytest.skip("it does not iterate")

    def interrupt(step):
        raise KeyboardInterrupt

    state = solver.prepare(K, None, True)
    with pytest.raises(KeyboardInterrupt):
        solver.solve(state, Y, PENALTY, callback=interrupt)
    again = solver.solve(state, Y, PENALTY)
    fresh = solver.solve(solver.prepare(K, None, True), Y, PENALTY)
    assert distance(predictions(dense, again), predictions(dense, fresh)) <= 1e-10


@EVERY
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Robust(), losses.Absolute()], ids=lambda loss: loss.name)
def test_losses_that_a_solver_does_not_minimize_are_refused_by_name(name, loss):
    K, _, Y, _ = data(name, t=1)
    solver = SOLVERS[name]()
    problem = Risk(K, Y.sign(), 1e-2, loss)
    able = {"squared": False, "smooth": loss.smooth, "kinked": True, "convex": True}[solver.traits.losses]
    if able:
        assert torch.isfinite(solve(problem, solver).coefficients).all()
    else:
        with pytest.raises(ValueError, match=f"{name}.*{loss.name}"):
            solve(problem, solver)


@EVERY
def test_settings_survive_json_and_bad_ones_are_named(name):
    from gyrfalcon.solvers.solver import solver_from_dict

    solver = precise(name)
    assert solver_from_dict(solver.to_dict()) == solver
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.tolerance = 1.0
    for field in dataclasses.fields(solver):
        if field.name in ("max_iterations", "batch_size", "max_components"):
            with pytest.raises(ValueError, match=field.name):
                SOLVERS[name](**{field.name: 0})
        if field.name == "tolerance":
            with pytest.raises(ValueError, match="tolerance"):
                SOLVERS[name](tolerance=-1.0)


def test_a_solver_from_outside_the_package_joins():
    @dataclasses.dataclass(frozen=True)
    class Constant(gf.solvers.Solver):
        name = "constant"
        traits = gf.solvers.Traits()

        def prepare(self, K, weights=None, intercept=False):
            return gf.solvers.State(K, weights, intercept)

        def _solve(self, state, problem, run):
            zero = torch.zeros(state.K.shape[1], problem.Y.shape[1], dtype=torch.float64)
            return gf.solvers.Solution(zero, problem.mean, gf.solvers.Record("constant", objective=[0.0]))

    X = np.linspace(0, 1, 30)[:, None]
    model = gf.KernelRegressor(solver=Constant(), penalty=1.0, tune=None).fit(X, X[:, 0] + 2)
    np.testing.assert_allclose(model.predict(X), (X + 2).mean())
    with pytest.raises(ValueError, match="early_stopping"):
        gf.KernelRegressor(solver=Constant(), early_stopping=True).fit(X, X[:, 0])


def test_an_engine_from_outside_the_package_joins():
    class Twice(Engine):
        name = "twice"

        def __init__(self, kernel, X, C, budget):
            super().__init__(kernel, (len(X), len(C)), torch.float64, torch.device("cpu"), budget)
            self.X, self.C = torch.as_tensor(X), torch.as_tensor(C)

        def block(self, start, stop):
            return 2 * self.kernel.block(self.X[start:stop], self.C)

    X = np.random.default_rng(0).normal(size=(40, 2))
    K = gf.KernelMatrix(KERNEL, X, X[:7], engine=Twice)
    np.testing.assert_allclose(K @ np.ones(7), 2 * oracle.dense(KERNEL, X, X[:7]) @ np.ones(7))
    assert K.engine == "twice"
    solution = solve(LeastSquares(K, torch.from_numpy(X[:, :1]), 1e-6), "falkon")  # which asks for products alone
    assert torch.isfinite(solution.coefficients).all()


def test_a_kernel_and_a_loss_from_outside_the_package_join():
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False, repr=False)
    class InverseQuadratic(gf.kernels.RadialKernel):
        def profile(self, squared):
            return 1 / (1 + squared)

    class Huber(losses.ResidualLoss):
        name = "pseudo-huber"

        def phi(self, residual):
            return (1 + residual.square()).sqrt() - 1

        def slope(self, residual):
            return residual / (1 + residual.square()).sqrt()

        def bend(self, residual):
            return (1 + residual.square()) ** -1.5

    X = np.linspace(-2, 2, 200)[:, None]
    y = np.sin(X[:, 0])
    y[::20] += 30.0
    model = gf.KernelRegressor(InverseQuadratic(1.5), loss=Huber(), penalty=1e-5, n_centers=30, random_state=0).fit(
        X, y
    )
    squared = gf.KernelRegressor(InverseQuadratic(1.5), penalty=1e-5, n_centers=30, random_state=0).fit(X, y)
    errors = [np.median(np.abs(fitted.predict(X) - np.sin(X[:, 0]))) for fitted in (model, squared)]
    assert errors[0] < 0.1 * errors[1]
