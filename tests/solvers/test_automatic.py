"""The choice of a solver: what must hold whatever its constants; `python -m benchmarks choice` takes the time."""

import numpy as np
import pytest
import torch

from gyrfalcon import KernelMatrix, costs
from gyrfalcon.kernels import Gaussian, Matern, ProductLaplacian
from gyrfalcon.losses import LOSSES
from gyrfalcon.solvers import Direct, Exact, Falkon, LeastSquares, Newton, Risk, choice, choose, solve
from gyrfalcon.solvers.falkon import sample_rows

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
        ({"n": 2000, "m": 500, "t": 10}, "direct"),
        ({"n": 50_000, "m": 500, "t": 10}, "falkon"),
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
    base = {"n": 14_000, "m": 1000, "d": 10, "t": 2}  # enough rows to sample some for the preconditioner
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


def cube(n, m, length_scale, noise, d=8, kernel=Gaussian):
    """A target without noise on points of a cube, and so many centers."""
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    Y = torch.from_numpy(np.sin(X @ (2 * rng.normal(size=(d, 5)))).sum(1, keepdims=True))
    return LeastSquares(KernelMatrix(kernel(length_scale), X, X[:m]), Y, noise / n, None, True)


def test_iterations_end_where_centers_leave_much_of_the_kernel_unexplained():
    """However small the penalty is: k(C, C) is far from singular then, and there is no rounding to drown in."""
    narrow, wide = cube(6000, 400, 0.5, 1e-6), cube(6000, 400, 8.0, 1e-6)
    assert choice.unexplained(narrow.K) > 0.01
    assert choice.unexplained(wide.K) < 1e-8
    iterated, direct = (solve(narrow, name).record for name in ("falkon", "direct"))
    assert iterated.converged
    assert iterated.objective[0] < 1.01 * direct.objective[0]
    assert not choice._may_not_end(narrow)
    assert choice._may_not_end(wide)
    many = cube(60_000, 1000, 0.5, 1e-6)
    assert choose(many)[0].name == "falkon"


def test_rough_kernels_of_few_features_are_factored_too():
    """Centers on a line explain each other, whatever the kernel."""
    dense = cube(4000, 300, 0.5, 1e-6, d=1, kernel=lambda scale: Matern(scale, nu=1.5))
    assert choice._may_not_end(dense)
    assert not choice._may_not_end(cube(4000, 300, 0.5, 1e-6, d=8, kernel=lambda scale: Matern(scale, nu=1.5)))


@pytest.mark.parametrize("length_scale", [0.5, 2.0])
def test_what_centers_leave_is_told_by_the_first_of_them(length_scale):
    K = cube(3000, 1200, length_scale, 1e-6).K
    T = np.linalg.cholesky(K.between_centers() + 1e-12 * np.eye(1200))
    found, true = choice.unexplained(K), np.median(np.square(T.diagonal()[600:]))
    assert 0.05 < found / true < 20
    assert choice.unexplained(K.with_centers(index=slice(0, 2))) > found


def test_centers_that_are_one_point_explain_each_other():
    X = np.zeros((50, 2))
    assert choice.unexplained(KernelMatrix(Gaussian(), X, X[:20])) < 1e-10


@pytest.mark.parametrize(
    "case", [problem(2000, 100), problem(1_000_000, 3000), problem(500, None), problem(100_000, 2000, penalty=1e-9)]
)
def test_the_price_is_that_of_what_is_taken(case):
    taken = choice.expected(case)
    assert (taken.solver, taken.reason) == choose(case)
    seconds = {"direct": choice.direct_seconds, "exact": choice.exact_seconds}
    price = seconds.get(taken.solver.name, lambda posed: choice.falkon_seconds(posed, 100))
    assert taken.seconds == price(case)


def test_entries_of_combined_kernels_cost_what_their_parts_do():
    X = np.zeros((10, 7), np.float32)
    one = Gaussian()
    kernels = one, one + one, 0.5 * (one + one) + Matern(1.0)
    prices = [costs.entry(KernelMatrix(kernel, X).features, torch.float32) for kernel in kernels]
    assert prices == pytest.approx([prices[0], 2 * prices[0], 3 * prices[0]])


@pytest.mark.parametrize("penalty", [1e-3, 1e-6, 1e-12])
def test_a_sample_of_rows_leaves_few_iterations(penalty):
    plain, three, eight = (costs.iterations(100_000, 1000, 5, penalty, count) for count in (0, 3, 8))
    assert eight <= three <= max(16, plain)
    assert eight <= 8


def test_samples_for_rough_kernels_have_to_pay_twice():
    def sampled(n, *, rough):
        return sample_rows(n, 1100, 32, torch.float32, 2.6e-8, 8, rough=rough)

    assert sampled(50_000, rough=True) is None
    assert sampled(50_000, rough=False) is not None
    assert sampled(1_000_000, rough=True) is not None


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
