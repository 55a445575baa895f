"""The choice of a solver: what must hold whatever its constants; `python -m benchmarks choice` takes the time."""

import numpy as np
import pytest
import torch

from gyrfalcon import KernelMatrix, costs
from gyrfalcon.kernels import Gaussian, Matern, ProductLaplacian
from gyrfalcon.losses import LOSSES
from gyrfalcon.solvers import Direct, Exact, Falkon, LeastSquares, Newton, Risk, choice, choose, solve

pytestmark = pytest.mark.usefixtures("one_thread")


def problem(n, m, d=5, t=1, penalty=1e-6, dtype=torch.float64):
    """Points that take no memory: only their shapes are looked at."""
    X = torch.zeros(1, 1, dtype=dtype).expand(n, d)
    K = KernelMatrix(Gaussian(), X, None if m is None else X[:m], memory_budget=10**9)
    return LeastSquares(K, torch.zeros(1, 1, dtype=dtype).expand(n, t), penalty)


def test_smooth_losses_go_to_newton_and_those_with_kinks_to_smoothed_newton():
    K = KernelMatrix(Gaussian(), torch.zeros(4, 1, dtype=torch.float64))
    for name, loss in LOSSES.items():
        Y = {"softmax": torch.eye(2).repeat(2, 1)}.get(name, torch.ones(4, 1)).double()
        solver, reason = choose(Risk(K, Y, 1e-3, loss))
        assert solver.name == ("newton" if loss.smooth else "smoothed_newton")
        assert name in reason


@pytest.mark.parametrize(
    ("shape", "solver"),
    [
        ({"n": 500, "m": None}, "exact"),
        ({"n": 3000, "m": None}, "exact"),
        ({"n": 2000, "m": 100}, "direct"),
        ({"n": 20_000, "m": 100}, "direct"),
        ({"n": 50_000, "m": 500, "t": 10}, "direct"),
        ({"n": 1_000_000, "m": 3000, "dtype": torch.float32}, "falkon"),
        ({"n": 100_000, "m": 2000}, "falkon"),
        ({"n": 100_000, "m": 2000, "dtype": torch.float32}, "falkon"),
    ],
)
def test_clear_cases(shape, solver):
    found, reason = choose(problem(**shape))
    assert found.name == solver
    assert reason


@pytest.mark.parametrize("cost", [choice.direct_seconds, lambda p: choice.falkon_seconds(p, 100)])
@pytest.mark.parametrize("grown", [{"n": 20_000}, {"m": 2000}, {"d": 20}, {"t": 20}])
def test_more_work_never_costs_less(cost, grown):
    base = {"n": 10_000, "m": 1000, "d": 10, "t": 2}
    if "d" in grown and cost is not choice.direct_seconds:
        pytest.skip("more features make fewer iterations")
    assert cost(problem(**{**base, **grown})) >= cost(problem(**base))


def test_more_outputs_and_smaller_penalties_favor_the_direct_solver():
    def ratio(**more):
        case = problem(20_000, 500, **more)
        return choice.falkon_seconds(case, 100) / choice.direct_seconds(case)

    assert ratio(t=20) > ratio(t=1)
    assert ratio(penalty=1e-9) > ratio(penalty=1e-3)


@pytest.mark.parametrize("penalty", [1e-5, 1e-6])
def test_rough_kernels_are_expected_to_take_as_few_iterations_as_they_do(penalty):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 5))
    Y = torch.from_numpy(np.sin(2 * X[:, :1]) * X[:, 1:2] + 0.3 * random.normal(size=(3000, 1)))
    expected = {rough: costs.iterations(3000, 300, 5, penalty, rough=rough) for rough in (False, True)}
    assert expected[True] < expected[False]
    assert costs.iterations(3000, 300, 5, 1e-9, rough=True) == costs.iterations(3000, 300, 5, 1e-9)
    for kernel in (Matern(3.0, nu=1.5), ProductLaplacian(5.0)):
        taken = solve(LeastSquares(KernelMatrix(kernel, X, X[:300]), Y, penalty), Falkon()).record.iterations
        assert 0.5 < taken / expected[True] < 2


def test_penalties_too_small_for_iterations_are_factored():
    """Conjugate gradients for a smooth kernel end in rounding there, far from the minimum."""
    for shape in ({"n": 100_000, "m": 2000}, {"n": 60_000, "m": 1000, "dtype": torch.float32}):
        assert choose(problem(**shape))[0].name == "falkon"
        solver, reason = choose(problem(**shape, penalty=1e-9))
        assert solver.name == "direct"
        assert "1.0e-09" in reason
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(3000, 4)))
    tiny = LeastSquares(KernelMatrix(Gaussian(3.0), X, X[:300]), torch.sin(X[:, :1]), 1e-11)
    direct, iterated = (float(np.sum(solve(tiny, name).record.objective)) for name in ("direct", "falkon"))
    assert iterated > 2 * direct  # what the choice avoids


def test_noise_of_many_rows_ends_iterations_at_small_penalties():
    assert choose(problem(n=1_000_000, m=750, penalty=1.3e-8))[0].name == "falkon"
    assert choose(problem(n=1_000_000, m=750, penalty=1.3e-9))[0].name == "direct"
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(60_000, 4)))
    noisy = LeastSquares(KernelMatrix(Gaussian(3.0), X, X[:200]), torch.sin(X[:, :1]), 9e-8)
    direct, iterated = (float(np.sum(solve(noisy, name).record.objective)) for name in ("direct", "falkon"))
    assert iterated < 1.01 * direct


def test_the_choice_is_solved_and_told():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    K = KernelMatrix(Gaussian(), X, X[:50])
    least_squares = LeastSquares(K, torch.from_numpy(np.sin(X[:, :1])), 1e-3)
    answers = {
        solver.name: solve(least_squares, solver).coefficients
        for solver in (Direct(), Falkon(1e-14, 500), Newton(1e-10, 500))
    }
    for name, found in answers.items():
        gap = (K @ found.numpy()) - (K @ answers["direct"].numpy())
        assert np.abs(gap).max() < 1e-6, name
    with pytest.raises(ValueError, match="every distinct point"):
        solve(least_squares, Exact())
    risk = Risk(K, torch.ones(400, 1, dtype=torch.float64), 1e-3, LOSSES["logistic"])
    with pytest.raises(ValueError, match="least squares only"):
        solve(risk, Direct())
