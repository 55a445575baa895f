"""Every objective, evaluated exactly, against autograd through dense n × n matrices, and against laws that it obeys."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon import tuning as gt
from gyrfalcon.solvers import LeastSquares
from reference import relative_error
from reference import tuning as oracle

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS, CENTERS, FEATURES = 23, 4, 5
EXACT = gt.Exact()

OBJECTIVES = {
    "holdout": gt.HoldOut(0.3, random_state=1),
    "kfold": gt.KFold(4, random_state=2),
    "loocv": gt.LeaveOneOut(),
    "gcv": gt.GCV(),
    "creg": gt.ComplexityRegularization(noise=0.6),
    "sgpr": gt.SGPR(),
    "sgpr with amplitude": gt.SGPR(amplitude=True),
    "proposed": gt.Proposed(),
    "proposed bound": gt.Proposed("trace"),
}
CRITERIA = [name for name, objective in OBJECTIVES.items() if isinstance(objective, gt.Criterion)]
FORMULAS = {
    "loocv": oracle.leave_one_out,
    "gcv": oracle.gcv,
    "creg": lambda dense: oracle.creg(dense, noise=0.6),
    "sgpr": oracle.sgpr,
    "sgpr with amplitude": lambda dense: oracle.sgpr(dense, amplitude=True),
    "proposed": oracle.proposed,
    "proposed bound": lambda dense: oracle.proposed(dense, mean=False),
}

MAP = np.cos(np.arange(3 * FEATURES)).reshape(3, FEATURES)
KERNELS = {  # of a function that makes a length scale for so many features
    "gaussian": lambda scale: gk.Gaussian(scale(FEATURES)),
    "laplacian": lambda scale: gk.Laplacian(scale(FEATURES)),
    "matern32": lambda scale: gk.Matern(scale(FEATURES), nu=1.5),
    "matern52": lambda scale: gk.Matern(scale(FEATURES), nu=2.5),
    "rational": lambda scale: gk.RationalQuadratic(scale(FEATURES), alpha=0.7),
    "sum": lambda scale: 0.7 * gk.Gaussian(scale(FEATURES)) + gk.Matern(2.5, nu=1.5),
    "mapped": lambda scale: gk.Mapped(gk.Gaussian(scale(3)), MAP),
    "linear": lambda scale: gk.Linear(scale(FEATURES)),
    "polynomial": lambda scale: gk.Polynomial(scale(FEATURES), degree=2, offset=0.5),
}
SCALES = {"one scale": lambda features: 1.8, "a scale each": lambda features: np.linspace(1.3, 2.4, features)}

every_objective = pytest.mark.parametrize("name", OBJECTIVES)
every_criterion = pytest.mark.parametrize("name", CRITERIA)


def data(seed=0, outputs=1, rows=ROWS):
    rng = np.random.default_rng(seed)
    X, C = rng.normal(size=(rows, FEATURES)), rng.normal(size=(CENTERS, FEATURES))
    Y = np.sin(X[:, :1] * np.arange(1, outputs + 1)) + 0.3 * rng.normal(size=(rows, outputs))
    weights = rng.uniform(0.1, 2.5, size=rows)
    weights[rows // 2] = 0
    return X, C, Y, weights


def pose(kernel, X, C, Y, weights=None, penalty=0.02, **options):
    def give(points):
        return points if sparse.issparse(points) else torch.from_numpy(points)

    K = KernelMatrix(kernel, give(X), None if C is None else give(C), **options)
    w = None if weights is None else torch.from_numpy(np.asarray(weights, dtype=Y.dtype))[:, None]
    return LeastSquares(K, torch.from_numpy(Y), penalty, w)


class Split:
    """Stands in for a method, to see how an objective divides the rows."""

    def validation(self, problem, folds, *, gradient):
        return folds.labels, folds.held


def formula(name, problem):
    """The objective as a function of `oracle.Dense`."""
    if name in FORMULAS:
        return FORMULAS[name]
    labels, held = OBJECTIVES[name].evaluate(problem, Split())
    return lambda dense: oracle.validation(dense, labels, held)


def flat(gradient):
    """All derivatives by name; none in centers that are sparse."""
    centers = {} if gradient.centers is None else {"centers": gradient.centers}
    return {"penalty": np.asarray(gradient.penalty), **centers, **gradient.parameters}


def assert_close(found, value, gradient, tolerance):
    assert found.value == pytest.approx(value, rel=tolerance)
    assert flat(found.gradient).keys() == gradient.keys()
    off = {name: relative_error(part, gradient[name]) for name, part in flat(found.gradient).items()}
    assert max(off.values()) <= tolerance, off


def assert_same(a, b, tolerance):
    assert_close(a, b.value, flat(b.gradient), tolerance)


@every_objective
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_value_and_gradient_are_those_of_the_formula(name, kernel, scale, weighted, outputs):
    X, C, Y, w = data(outputs=outputs)
    k, w = KERNELS[kernel](SCALES[scale]), w if weighted else None
    problem = pose(k, X, C, Y, w)
    value, gradient = oracle.differentiate(formula(name, problem), k, X, C, Y, 0.02, w)
    assert_close(OBJECTIVES[name].evaluate(problem, EXACT), value, gradient, 1e-8)


def test_the_shortcut_of_leave_one_out_is_a_refit_without_each_row():
    X, C, Y, w = data(outputs=2)
    refits, shortcut = (
        oracle.differentiate(f, gk.Gaussian(1.8), X, C, Y, 0.02, w)
        for f in (oracle.leave_one_out, oracle.leave_one_out_shortcut)
    )
    assert shortcut[0] == pytest.approx(refits[0], rel=1e-11)
    for part, other in zip(shortcut[1].values(), refits[1].values(), strict=True):
        assert relative_error(part, other) <= 1e-10


@every_objective
@pytest.mark.parametrize("kernel", ["gaussian", "matern32", "sum"])
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_every_point_a_center(name, kernel, weighted):
    """Then K̃ is K, which no move of a center brings nearer: all derivatives in the centers vanish."""
    X, _, Y, w = data(outputs=2)
    k, w = KERNELS[kernel](lambda features: np.linspace(1.0, 1.4, features)), w + 0.2 if weighted else None
    problem = pose(k, X, None, Y, w)
    value, gradient = oracle.differentiate(formula(name, problem), k, X, None, Y, 0.02, w)
    found = OBJECTIVES[name].evaluate(problem, EXACT)
    assert np.abs(found.gradient.centers).max() <= 1e-9 * abs(found.gradient.penalty)
    assert_close(found._replace(gradient=found.gradient._replace(centers=gradient["centers"])), value, gradient, 1e-9)


@every_objective
@pytest.mark.parametrize("penalty", [1e-4, 3.0])
def test_small_and_large_penalties(name, penalty):
    X, C, Y, w = data()
    problem = pose(gk.Gaussian(1.8), X, C, Y, w, penalty)
    value, gradient = oracle.differentiate(formula(name, problem), gk.Gaussian(1.8), X, C, Y, penalty, w)
    assert_close(OBJECTIVES[name].evaluate(problem, EXACT), value, gradient, 1e-8)


@every_objective
def test_terms_add_up_and_the_gradient_is_optional(name):
    problem = pose(gk.Gaussian(1.8), *data())
    found, bare = (OBJECTIVES[name].evaluate(problem, EXACT, gradient=g) for g in (True, False))
    assert sum(found.terms.values()) == pytest.approx(found.value, rel=1e-13)
    assert bare == found._replace(gradient=None)


# How rows are divided.


@pytest.mark.parametrize(("rows", "fraction", "count"), [(20, 0.25, 5), (2, 0.01, 1), (3, 1.0, 2)])
def test_hold_out_holds_out_the_fraction_but_never_all_or_nothing(rows, fraction, count):
    problem = pose(gk.Gaussian(1.8), *data(rows=rows))
    labels, held = gt.HoldOut(fraction).evaluate(problem, Split())
    assert np.isin(labels, held).sum() == count


def test_folds_are_of_even_sizes_and_each_is_held_once():
    problem = pose(gk.Gaussian(1.8), *data())
    labels, held = gt.KFold(4).evaluate(problem, Split())
    assert held == (0, 1, 2, 3)
    assert sorted(np.bincount(labels)) == [5, 6, 6, 6]


@pytest.mark.parametrize("objective", [gt.HoldOut, gt.KFold])
def test_the_random_state_decides_the_division(objective):
    problem = pose(gk.Gaussian(1.8), *data())
    first, again, other = (objective(random_state=s).evaluate(problem, Split())[0] for s in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_impossible_divisions_are_refused():
    X, C, Y, _ = data()
    with pytest.raises(ValueError, match="two rows"):
        gt.HoldOut().evaluate(pose(gk.Gaussian(1.8), X[:1], C, Y[:1]), EXACT)
    for folds in (1, ROWS + 1):
        with pytest.raises(ValueError, match="folds"):
            gt.KFold(folds).evaluate(pose(gk.Gaussian(1.8), X, C, Y), EXACT)


@pytest.mark.parametrize("method", [EXACT, gt.Stochastic()], ids=["exact", "stochastic"])
@pytest.mark.parametrize("weightless", ["held", "kept"])
def test_a_side_without_weight_is_refused(method, weightless):
    X, C, Y, _ = data()
    labels, _ = gt.HoldOut().evaluate(pose(gk.Gaussian(1.8), X, C, Y), Split())
    w = np.where((labels == 1) == (weightless == "held"), 0.0, 1.0)
    with pytest.raises(ValueError, match="weight"):
        gt.HoldOut().evaluate(pose(gk.Gaussian(1.8), X, C, Y, w), method)


# What does not depend on how the rows are gone through, or in which type they come.


@every_objective
@pytest.mark.parametrize("rows_at_once", [1, 7])
def test_the_size_of_blocks_does_not_matter(name, rows_at_once):
    X, C, Y, w = data(outputs=2)
    small = 32 * CENTERS * rows_at_once
    assert small // 4 < 8 * ROWS * CENTERS  # so that features are made again, not kept
    whole, pieces = (
        OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), X, C, Y, w, **options), EXACT)
        for options in ({}, {"memory_budget": small})
    )
    assert_same(pieces, whole, 1e-10)


@every_objective
def test_the_engine_does_not_matter(name):
    X, C, Y, w = data(outputs=2)
    k = gk.Matern(SCALES["a scale each"](FEATURES), nu=2.5)
    native, torch_ = (
        OBJECTIVES[name].evaluate(pose(k, X, C, Y, w, engine=engine), EXACT) for engine in (None, "torch")
    )
    assert_same(torch_, native, 1e-10)


@every_objective
def test_float32_points_are_evaluated_in_float64(name):
    arrays = [a.astype(np.float32) for a in data(outputs=2)]
    narrow, wide = (
        OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), *(a.astype(t) for a in arrays)), EXACT)
        for t in (np.float32, np.float64)
    )
    assert_same(narrow, wide, 1e-10)


@every_objective
def test_float32_points_too_many_to_widen(name):
    """Beyond the budget in float64, so that the entries of K are those of float32."""
    arrays = [a.astype(np.float32) for a in data(outputs=2)]
    budget = 8 * (ROWS + CENTERS) * FEATURES - 1
    narrow = OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), *arrays, memory_budget=budget), EXACT)
    wide = OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), *(a.astype(np.float64) for a in arrays)), EXACT)
    assert_same(narrow, wide, 1e-4)


SPARSE = {
    "gaussian": gk.Gaussian(1.8),
    "matern52": gk.Matern(1.8, nu=2.5),
    "sum": 0.7 * gk.Laplacian(1.8) + gk.Linear(2.0),
    "polynomial": gk.Polynomial(1.8, degree=2, offset=0.5),
}


@every_objective
@pytest.mark.parametrize(("kernel", "centers"), [*((kernel, "sparse") for kernel in SPARSE), ("sum", "dense")])
def test_sparse_points(name, kernel, centers):
    X, C, Y, w = data(outputs=2)
    X, C = (np.where(np.abs(a) > 0.4, a, 0.0) for a in (X, C))
    dense = OBJECTIVES[name].evaluate(pose(SPARSE[kernel], X, C, Y, w), EXACT)
    thin = sparse.csr_array(C) if centers == "sparse" else C
    found = OBJECTIVES[name].evaluate(pose(SPARSE[kernel], sparse.csr_array(X), thin, Y, w), EXACT)
    assert_same(found, dense._replace(gradient=dense.gradient._replace(centers=None)), 1e-9)


def test_length_scales_of_features_have_no_derivative_on_sparse_points():
    """Nor has anything else of such a kernel; what is left is right."""
    X, C, Y, w = data()
    k = KERNELS["gaussian"](SCALES["a scale each"])
    dense = gt.GCV().evaluate(pose(k, X, C, Y, w), EXACT)
    found = gt.GCV().evaluate(pose(k, sparse.csr_array(X), sparse.csr_array(C), Y, w), EXACT)
    assert_same(found, dense._replace(gradient=gt.Gradient(dense.gradient.penalty, {}, None)), 1e-9)


# Laws.


def repeated(problem, weights):
    """Rows as many times as their weights say."""
    K, counts = problem.K, torch.from_numpy(weights)
    matrix = KernelMatrix(K.kernel, K._X.values.repeat_interleave(counts, 0), K.centers)
    return LeastSquares(matrix, problem.Y.repeat_interleave(counts, 0), problem.penalty)


@settings(derandomize=True, deadline=None, max_examples=8)
@given(seed=st.integers(0, 99), weights=st.lists(st.integers(0, 3), min_size=9, max_size=9).filter(any))
def test_a_weight_is_a_number_of_repetitions(seed, weights):
    X, C, Y, _ = data(seed, outputs=2, rows=9)
    counts = np.array(weights)
    once = pose(gk.Gaussian(1.8), X, C, Y)
    many = repeated(once, counts)
    weighted = dataclasses.replace(once, weights=torch.tensor(weights, dtype=torch.float64)[:, None])
    for name in CRITERIA:
        assert_same(OBJECTIVES[name].evaluate(weighted, EXACT), OBJECTIVES[name].evaluate(many, EXACT), 1e-8)


@pytest.mark.parametrize("method", [EXACT, gt.Stochastic(tolerance=1e-13)], ids=["exact", "stochastic"])
def test_a_weight_is_a_number_of_repetitions_in_the_same_fold(method):
    X, C, Y, _ = data(outputs=2)
    counts = np.arange(ROWS) % 4
    labels, held = OBJECTIVES["kfold"].evaluate(pose(gk.Gaussian(1.8), X, C, Y), Split())
    weighted = method.validation(pose(gk.Gaussian(1.8), X, C, Y, counts), gt.Folds(labels, held), gradient=True)
    many = repeated(pose(gk.Gaussian(1.8), X, C, Y), counts)
    assert_same(method.validation(many, gt.Folds(np.repeat(labels, counts), held), gradient=True), weighted, 1e-8)


@pytest.mark.parametrize("name", ["loocv", *CRITERIA])
def test_the_order_of_rows_does_not_matter(name):
    X, C, Y, w = data(outputs=2)
    order = np.random.default_rng(1).permutation(ROWS)
    straight = OBJECTIVES[name].evaluate(pose(gk.Laplacian(1.8), X, C, Y, w), EXACT)
    mixed = OBJECTIVES[name].evaluate(pose(gk.Laplacian(1.8), X[order], C, Y[order], w[order]), EXACT)
    assert_same(mixed, straight, 1e-10)


@every_objective
def test_the_order_of_centers_does_not_matter(name):
    X, C, Y, w = data(outputs=2)
    order = np.array([2, 0, 3, 1])
    straight, mixed = (OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), X, c, Y, w), EXACT) for c in (C, C[order]))
    moved = straight.gradient._replace(centers=straight.gradient.centers[order])
    assert_same(mixed, straight._replace(gradient=moved), 1e-9)


@every_objective
def test_what_larger_targets_do(name):
    """Errors and risks are squares of the targets; complexity, defects and determinants know nothing of them."""
    X, C, Y, w = data(outputs=2)
    one, three = (OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), X, C, y, w), EXACT).terms for y in (Y, 3 * Y))
    expected = {term: value * 9 for term, value in one.items()}
    for term in {"complexity", "variance", "log determinant"} & one.keys():
        expected[term] = one[term]
    if name.startswith("sgpr"):
        expected["approximation"] = one["approximation"]
    if name == "sgpr with amplitude":
        expected["fit"] = one["fit"] + w.sum() * np.log(9)
    assert three == pytest.approx(expected, rel=1e-11)


@settings(derandomize=True, deadline=None, max_examples=12)
@given(factor=st.floats(1e-3, 1e3), penalty=st.floats(1e-3, 1e2), name=st.sampled_from(sorted(OBJECTIVES)))
def test_a_kernel_and_a_penalty_of_the_same_factor_predict_the_same(factor, penalty, name):
    """All but the bounds, in which the risk or the prior itself counts, are as they were."""
    X, C, Y, w = data(outputs=2)
    plain = OBJECTIVES[name].evaluate(pose(gk.Gaussian(1.8), X, C, Y, w, penalty), EXACT)
    scaled = OBJECTIVES[name].evaluate(pose(factor * gk.Gaussian(1.8), X, C, Y, w, factor * penalty), EXACT)
    terms = dict(plain.terms)
    if "log determinant" in terms:
        terms["log determinant"] += w.sum() * np.log(factor)
        shift = -w.sum() * np.log(factor) if name == "sgpr with amplitude" else terms["fit"] * (1 / factor - 1)
        terms["fit"] += shift
    assert scaled.terms == pytest.approx(terms, rel=1e-8, abs=1e-8)
    if name != "sgpr":
        assert factor * scaled.gradient.penalty == pytest.approx(plain.gradient.penalty, rel=1e-6)


# On the way to the optimizer.


@every_objective
def test_finite_differences_in_the_coordinates_of_tuning(name):
    k = 0.6 * gk.Mapped(gk.RationalQuadratic([1.3, 1.9, 2.4], alpha=0.7), MAP)
    parameters = gt.Parameters(pose(k, *data(outputs=2)), centers=True)
    objective, theta = OBJECTIVES[name], parameters.start + 0.1
    gradient = parameters.gradient(theta, objective.evaluate(parameters.at(theta), EXACT).gradient)
    assert gradient.shape == theta.shape == (1 + 1 + 1 + 3 + MAP.size + FEATURES * CENTERS,)
    positive = np.eye(len(theta))[:6]  # penalty, scale, alpha and length scales
    mixed = np.random.default_rng(0).normal(size=(4, len(theta))) / len(theta) ** 0.5

    def value(t):
        return objective.evaluate(parameters.at(t), EXACT, gradient=False).value

    for direction in (*positive, *mixed):
        step = 1e-4 * direction
        slope = (value(theta + step) - value(theta - step)) / 2e-4
        assert direction @ gradient == pytest.approx(slope, rel=1e-6, abs=1e-8 * np.linalg.norm(gradient))
