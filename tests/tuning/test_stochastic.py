"""Objectives from random probes and iterative solves: exact where nothing is random, right on average where it is."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon import tuning as gt
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.solvers.falkon import NormalEquations
from reference import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS, CENTERS, FEATURES = 50, 5, 3
EXACT = gt.Exact()
# Between centers all have eigenvalues near one: of the jitter on their diagonal, 1e-10, the solves keep a hundredth.
KERNELS = {"gaussian": gk.Gaussian([0.9, 1.2, 1.6]), "sum": 1.3 * gk.Matern(1.5, nu=2.5) + gk.Linear(2.0)}
CRITERIA = [gt.GCV(), gt.ComplexityRegularization(0.6), gt.SGPR(), gt.SGPR(amplitude=True), gt.Proposed()]
VALIDATION = [gt.HoldOut(0.3), gt.KFold(4)]

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])


def problem_of(kernel="gaussian", *, rows=ROWS, centers=CENTERS, weighted=False, dtype=np.float64, **options):
    rng = np.random.default_rng(1)
    X, C = rng.normal(size=(rows, FEATURES)), 1.5 * rng.normal(size=(centers, FEATURES))
    Y = np.sin(2 * X[:, :1] * [1, 2]) + 0.3 * rng.normal(size=(rows, 2))
    w = torch.from_numpy(rng.uniform(0.1, 2.5, size=(rows, 1)).astype(dtype)) if weighted else None
    X, C, Y = (torch.from_numpy(a.astype(dtype)) for a in (X, C, Y))
    return LeastSquares(KernelMatrix(KERNELS[kernel], X, C, **options), Y, 0.01, w)


def tight(seed=0, **options):
    return gt.Stochastic(tolerance=1e-13, random_state=seed, **options)


@dataclasses.dataclass(frozen=True)
class Only(gt.Criterion):
    """One statistic as an objective of its own."""

    statistic: str
    name = "only"

    @property
    def needs(self):
        return frozenset({self.statistic})

    def terms(self, s):
        return {self.statistic: getattr(s, self.statistic)}


def flat(gradient):
    """Derivatives in the penalty, in all parameters of the kernel together and, unless sparse, in the centers."""
    kernel = np.concatenate([np.ravel(gradient.parameters[name]) for name in sorted(gradient.parameters)])
    centers = {} if gradient.centers is None else {"centers": gradient.centers}
    return {"penalty": np.asarray(gradient.penalty), "kernel": kernel, **centers}


def assert_same(found, expected, tolerance):
    assert found.value == pytest.approx(expected.value, rel=tolerance)
    expected = flat(expected.gradient)
    assert flat(found.gradient).keys() == expected.keys()
    off = {name: relative_error(part, expected[name]) for name, part in flat(found.gradient).items()}
    assert max(off.values()) <= tolerance, off


# Where nothing is random.


@pytest.mark.parametrize("objective", VALIDATION, ids=lambda o: o.name)
@every_kernel
@weighted_or_not
def test_validation_is_exact(objective, kernel, weighted):
    problem = problem_of(kernel, weighted=weighted)
    assert_same(objective.evaluate(problem, tight()), objective.evaluate(problem, EXACT), 1e-8)


@pytest.mark.parametrize("statistic", ["risk", "norm", "defect"])
@every_kernel
@weighted_or_not
def test_all_but_two_traces_are_exact(statistic, kernel, weighted):
    """The defect once its sample holds all rows."""
    problem = problem_of(kernel, weighted=weighted)
    found = Only(statistic).evaluate(problem, tight(sample=ROWS))
    assert_same(found, Only(statistic).evaluate(problem, EXACT), 1e-8)


@every_kernel
@weighted_or_not
def test_leave_one_out_of_all_rows_is_exact(kernel, weighted):
    problem = problem_of(kernel, weighted=weighted)
    found = gt.LeaveOneOut().evaluate(problem, tight(probes=ROWS))
    assert_same(found, gt.LeaveOneOut().evaluate(problem, EXACT), 1e-8)


@every_kernel
@weighted_or_not
def test_degrees_of_freedom_of_one_row_are_exact(kernel, weighted):
    """The square of a sign is one."""
    problem = problem_of(kernel, rows=1, weighted=weighted)
    assert_same(Only("freedom").evaluate(problem, tight()), Only("freedom").evaluate(problem, EXACT), 1e-8)


@pytest.mark.parametrize("objective", [Only("log_determinant"), *CRITERIA[2:4]], ids=["alone", "sgpr", "amplitude"])
@every_kernel
@weighted_or_not
def test_the_log_determinant_of_one_center_is_exact(objective, kernel, weighted):
    problem = problem_of(kernel, centers=1, weighted=weighted)
    assert_same(objective.evaluate(problem, tight()), objective.evaluate(problem, EXACT), 1e-8)


@pytest.mark.parametrize("objective", [*VALIDATION, gt.LeaveOneOut(), *CRITERIA], ids=repr)
def test_terms_add_up_and_the_gradient_is_optional(objective):
    problem = problem_of(weighted=True)
    found, bare = (objective.evaluate(problem, tight(), gradient=g) for g in (True, False))
    assert sum(found.terms.values()) == pytest.approx(found.value, rel=1e-13)
    assert bare == found._replace(gradient=None)


# What is random is right on average.


def assert_right_on_average(draws, expected, power):
    """Within three standard errors, which are no more than the given part of what is expected."""
    error = np.std(draws, axis=0, ddof=1) / len(draws) ** 0.5
    assert 3 * np.linalg.norm(error) <= power * np.linalg.norm(expected)  # or a wrong estimate would not be seen
    assert (np.abs(np.mean(draws, axis=0) - expected) <= 3 * error + 1e-8 * np.abs(expected)).all()


@pytest.mark.parametrize(
    ("objective", "options", "weighted"),
    [
        (gt.ComplexityRegularization(), {"probes": 60}, False),
        (gt.Proposed(), {"probes": 60, "sample": 40}, True),
        (gt.LeaveOneOut(), {"probes": 40}, True),
    ],
    ids=["creg even", "proposed weighted", "loocv weighted"],
)
def test_estimates_are_right_on_average(objective, options, weighted):
    problem = problem_of(weighted=weighted)
    drawn = [objective.evaluate(problem, tight(seed, **options), gradient=False).terms for seed in range(200)]
    for term, expected in objective.evaluate(problem, EXACT).terms.items():
        assert_right_on_average([terms[term] for terms in drawn], expected, 0.02)


def test_the_log_determinant_and_its_gradient_are_right_on_average():
    problem = problem_of(weighted=True)
    exact = gt.SGPR().evaluate(problem, EXACT)
    drawn = [gt.SGPR().evaluate(problem, tight(seed, probes=4, sample=40)) for seed in range(200)]
    for term, expected in exact.terms.items():
        assert_right_on_average([found.terms[term] for found in drawn], expected, 0.02)
    for name, expected in flat(exact.gradient).items():
        assert_right_on_average([flat(found.gradient)[name] for found in drawn], expected, 0.1)


def test_gcv_is_its_formula_at_the_estimated_degrees_of_freedom():
    problem = problem_of(weighted=True)
    total = float(problem.weights.sum())
    terms = gt.ComplexityRegularization(noise=0.5).evaluate(problem, tight(3)).terms
    freedom = terms["complexity"] * total
    assert gt.GCV().evaluate(problem, tight(3)).value == pytest.approx(terms["error"] / (1 - freedom / total) ** 2)


# The gradient is that of the value with the same probes.


@dataclasses.dataclass(frozen=True)
class BoundWithoutDeterminant(gt.SGPR):
    """The probes of the determinant follow the preconditioner, so its gradient is right on average only."""

    needs = frozenset({"risk", "defect"})

    def terms(self, s):
        return super().terms(dataclasses.replace(s, log_determinant=0 * s.risk))


@pytest.mark.parametrize(
    "objective",
    [
        gt.GCV(),
        gt.ComplexityRegularization(),
        gt.Proposed(),
        BoundWithoutDeterminant(True),
        gt.LeaveOneOut(),
        gt.HoldOut(),
    ],
    ids=repr,
)
@weighted_or_not
def test_finite_differences_with_the_same_probes(objective, weighted):
    problem = problem_of("sum", weighted=weighted)
    parameters = gt.Parameters(problem, centers=True)
    options = {"probes": 5, "sample": 20}
    theta = parameters.start
    gradient = parameters.gradient(theta, objective.evaluate(problem, tight(**options)).gradient)

    def value(t):
        return objective.evaluate(parameters.at(t), tight(**options), gradient=False).value

    mixed = np.random.default_rng(0).normal(size=(3, len(theta))) / len(theta) ** 0.5
    for direction in (*np.eye(len(theta))[:4], *mixed):  # penalty, parameters of the kernel, everything
        slope = (value(theta + 1e-4 * direction) - value(theta - 1e-4 * direction)) / 2e-4
        assert direction @ gradient == pytest.approx(slope, rel=1e-6, abs=1e-7 * np.linalg.norm(gradient))


# Types and kinds of points.


@pytest.mark.parametrize("objective", [*VALIDATION, gt.LeaveOneOut(), *CRITERIA], ids=repr)
@weighted_or_not
def test_float32_points(objective, weighted):
    narrow, wide = (
        objective.evaluate(
            problem_of(weighted=weighted, dtype=dtype), gt.Stochastic(tolerance=tolerance, probes=10, sample=20)
        )
        for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-13))
    )
    assert_same(narrow, wide, 1e-4)


@pytest.mark.parametrize("objective", [*VALIDATION, gt.LeaveOneOut(), *CRITERIA], ids=repr)
@pytest.mark.parametrize("kernel", [gk.Gaussian(1.2), KERNELS["sum"]], ids=["gaussian", "sum"])
def test_sparse_points(objective, kernel):
    dense = problem_of("sum", weighted=True)
    X, C = (torch.where(points.abs() > 0.4, points, 0.0).numpy() for points in (dense.K._X.values, dense.K.centers))
    full, thin = (
        dataclasses.replace(dense, K=KernelMatrix(kernel, give(X), give(C)))
        for give in (torch.from_numpy, sparse.csr_array)
    )
    found, expected = (objective.evaluate(problem, tight(probes=10, sample=20)) for problem in (thin, full))
    assert found.gradient.centers is None
    without = expected.gradient._replace(centers=None)
    assert_same(found, expected._replace(gradient=without), 1e-8)


# What it costs.


def test_a_few_passes_do(monkeypatch):
    """A sample of the rows preconditions the solves, and probes drop out of them early."""
    columns = []
    apply = NormalEquations.operator
    monkeypatch.setattr(NormalEquations, "operator", lambda self, v: columns.append(v.shape[1]) or apply(self, v))
    gt.Proposed().evaluate(problem_of(rows=5000, centers=40), gt.Stochastic(probes=20))
    assert len(columns) <= 6
    assert columns[-1] < 10 < 20 < columns[0]


@pytest.mark.parametrize("objective", [gt.GCV(), gt.LeaveOneOut()], ids=lambda o: o.name)
def test_loose_solves_cost_the_value_less_than_their_tolerance(objective):
    """The value is of second order in what the solves lack, where it is a quadratic form."""
    problem = problem_of(rows=200, centers=40)
    loose, exact = (objective.evaluate(problem, gt.Stochastic(tolerance=t)).value for t in (1e-2, 1e-13))
    assert loose == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize("objective", [*VALIDATION, gt.LeaveOneOut(), *CRITERIA], ids=repr)
def test_no_matrix_of_all_rows_is_made(objective, monkeypatch):
    sizes = []
    block, row_gradients = KernelMatrix._block, KernelMatrix.row_gradients

    def watched_block(self, start, stop):
        sizes.append((stop - start) * self.shape[1])
        return block(self, start, stop)

    def watched_gradients(self, rows, weights, **options):
        sizes.append(weights.numel())
        return row_gradients(self, rows, weights, **options)

    monkeypatch.setattr(KernelMatrix, "_block", watched_block)
    monkeypatch.setattr(KernelMatrix, "row_gradients", watched_gradients)
    problem = problem_of(rows=3000, centers=20, memory_budget=10**5, cache=False)
    objective.evaluate(problem, gt.Stochastic(probes=5, sample=100))
    assert sizes
    assert max(sizes) <= 10**5 // 8  # numbers of the budget, of 60,000 in K


def test_a_repeated_evaluation_is_the_same_and_another_seed_is_another():
    problem = problem_of()
    first, again, other = (gt.GCV().evaluate(problem, tight(seed)).value for seed in (0, 0, 1))
    assert first == again
    assert first != other
