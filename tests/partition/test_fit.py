"""Leaves against dense solves in float64: exact in each leaf, blended between them, with intervals that cover."""

import dataclasses
import pickle
import threading

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.linalg.refined import RefinedSystem
from gyrfalcon.partition import LocalFunction, Partition, fit_partition, leaves
from reference.cases import KERNELS
from reference.kernels import dense
from reference.partition import exact_ridge, leaf_values, leaf_weights

random = np.random.default_rng(0)
X = random.uniform(-2, 2, (300, 2))
Y = np.stack([np.sin(2 * X[:, 0]) * X[:, 1], X[:, 0] - 3], 1) + 0.1 * random.normal(size=(300, 2))
NEW = random.uniform(-2.5, 2.5, (80, 2))
KERNEL = gf.kernels.ProductLaplacian([1.5, 3.0])
WHOLE, HALVES = Partition(1000), Partition(200, 0.0)


def blended(function, points):
    """The function from its definition, and its variance."""
    mean, variance = np.zeros((len(points), function.coefficients.shape[1])), []
    for i, x in enumerate(points):
        parts = [
            (weight, *leaf_values(function, leaf, x[None])) for leaf, weight in leaf_weights(function.tree, x).items()
        ]
        mean[i] = sum(weight * values[0] for weight, values, _ in parts)
        between = sum(weight * (values[0] - mean[i]) ** 2 for weight, values, _ in parts)
        variance.append(function.scale * sum(weight * own[0] for weight, _, own in parts) + between)
    return mean, np.array(variance)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "function"])
def test_one_leaf_is_kernel_ridge_regression(name, intercept):
    kernel = KERNELS[name](2, 1.0, 1.0)
    if not kernel.positive_definite or kernel.explicit:
        pytest.skip("kernel ridge regression needs a positive definite kernel of points")
    function = fit_partition(kernel, X, Y, 0.1, WHOLE, intercept=intercept)
    alpha, offset = exact_ridge(kernel, X, Y, 0.1, intercept=intercept)
    assert function.n_leaves == 1
    expected = dense(kernel, NEW, X) @ alpha + offset
    assert np.abs(function.predict(NEW) - expected).max() <= 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", [3e-7, 0.1])
def test_both_precisions_of_the_factors_solve_to_the_last_digits(noise, weighted):
    weights = random.uniform(0.5, 2.0, 300) if weighted else None
    root = None if weights is None else np.sqrt(weights)[:, None]
    K = gf.KernelMatrix(KERNEL, X)
    assert RefinedSystem(leaves.ridged(K, root, noise), noise, rough=True).narrow == (noise > 1e-4)
    function = fit_partition(KERNEL, X, Y, noise, WHOLE, weights=weights, intercept=True)
    alpha, offset = exact_ridge(KERNEL, X, Y, noise, weights, intercept=True)
    np.testing.assert_allclose(function.predict(NEW), dense(KERNEL, NEW, X) @ alpha + offset, rtol=0, atol=1e-9)
    np.testing.assert_allclose(function.intercepts[0], offset, rtol=0, atol=1e-9)


def test_two_leaves_without_overlap_are_two_exact_solves():
    function = fit_partition(KERNEL, X, Y, 0.1, HALVES, intercept=True)
    assert function.n_leaves == 2
    along = X @ function.tree.directions[0]
    sides = [along < function.tree.lower[0], along > function.tree.lower[0]]
    assert [side.sum() for side in sides] == [150, 150]
    new = NEW @ function.tree.directions[0] > function.tree.lower[0]
    for side, here in zip(sides, (~new, new), strict=True):
        alpha, offset = exact_ridge(KERNEL, X[side], Y[side], 0.1, intercept=True)
        expected = dense(KERNEL, NEW[here], X[side]) @ alpha + offset
        np.testing.assert_allclose(function.predict(NEW[here]), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_blended_leaves_and_their_variance_are_what_they_are_defined_as(weighted):
    weights = random.uniform(0.5, 2.0, 300) if weighted else None
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(80, 0.15), weights=weights, intercept=True)
    assert function.n_leaves > 4
    assert max(len(leaf_weights(function.tree, x)) for x in NEW) > 1
    mean, variance = blended(function, NEW)
    np.testing.assert_allclose(function.predict(NEW), mean, rtol=0, atol=1e-11)
    np.testing.assert_allclose(function.variance(NEW), variance, rtol=1e-8, atol=1e-10)
    energy, total = np.zeros(2), 0.0
    for leaf in range(function.n_leaves):
        rows = slice(function.offsets[leaf], function.offsets[leaf + 1])
        here = [int(np.flatnonzero((x == X).all(1))[0]) for x in function.points[rows]]
        w = None if weights is None else weights[here]
        alpha, _ = exact_ridge(KERNEL, X[here], Y[here], 0.1, w, intercept=True)
        np.testing.assert_allclose(function.coefficients[rows], alpha, rtol=0, atol=1e-9)
        energy += np.einsum("ij,ij->j", Y[here], alpha)
        total += len(here) if w is None else w.sum()
    np.testing.assert_allclose(function.scale, energy / total, rtol=1e-9)
    np.testing.assert_allclose(function.noise_variance, 0.1 * function.scale, rtol=1e-12)


def test_leaves_fit_what_the_global_model_leaves():
    def base(points):
        return np.stack([points[:, 0] ** 2, points[:, 1]], 1)

    function = fit_partition(KERNEL, X, Y, 0.1, Partition(100), base=base)
    alone = fit_partition(KERNEL, X, Y - base(X), 0.1, Partition(100))
    np.testing.assert_allclose(function.local(NEW), alone.predict(NEW), rtol=0, atol=1e-11)
    np.testing.assert_allclose(function.predict(NEW), alone.predict(NEW) + base(NEW), rtol=0, atol=1e-11)
    targets = fit_partition(KERNEL, X, Y, 0.1, Partition(100), intercept=True)
    np.testing.assert_allclose(function.scale, targets.scale, rtol=1e-9)  # whatever was taken away


@pytest.mark.parametrize("quantity", ["predict", "variance"])
def test_the_function_is_continuous_across_borders(quantity):
    """On a line through all borders, ten times smaller steps make ten times smaller differences; not so with jumps."""

    def largest_step(overlap, count):
        function = fit_partition(gf.kernels.Gaussian(0.8), X, Y, 0.3, Partition(50, overlap), intercept=True)
        line = np.linspace(-2, 2, count)[:, None] * [1.0, 0.7]
        assert len({leaf for x in line[:: count // 50] for leaf in leaf_weights(function.tree, x)}) > 3
        return np.abs(np.diff(getattr(function, quantity)(line), axis=0)).max()

    assert largest_step(0.1, 20_001) < 0.11 * largest_step(0.1, 2001)
    assert largest_step(0.0, 20_001) > 0.5 * largest_step(0.0, 2001)


def test_equal_rows_count_by_their_number_and_weights_like_repetitions():
    counts = random.integers(1, 4, 300)
    repeated = fit_partition(KERNEL, np.repeat(X, counts, 0), np.repeat(Y, counts, 0), 0.1, Partition(100))
    weighted = fit_partition(KERNEL, X, Y, 0.1, Partition(100), weights=counts * 1.0)
    np.testing.assert_array_equal(repeated.offsets, weighted.offsets)
    np.testing.assert_allclose(repeated.predict(NEW), weighted.predict(NEW), rtol=0, atol=1e-11)
    np.testing.assert_allclose(repeated.variance(NEW), weighted.variance(NEW), rtol=1e-9)
    without = fit_partition(KERNEL, X[:200], Y[:200], 0.1, Partition(100))
    zero = fit_partition(KERNEL, X, Y, 0.1, Partition(100), weights=(np.arange(300) < 200) * 1.0)
    np.testing.assert_array_equal(zero.predict(NEW), without.predict(NEW))


def test_two_points_repeated_a_thousand_times_end_in_one_leaf():
    rows = np.repeat([[0.0, 1.0], [1.0, 0.0]], 1000, 0)
    y = np.concatenate([random.normal(size=(1000, 1)) + 2, random.normal(size=(1000, 1)) - 2])
    function = fit_partition(gf.kernels.Gaussian(0.1), rows, y, 0.1, Partition(100))
    assert function.n_leaves == 1
    np.testing.assert_allclose(function.predict(rows[[0, -1]])[:, 0], [y[:1000].mean(), y[1000:].mean()], rtol=1e-3)
    np.testing.assert_allclose(function.spread, [y.reshape(2, -1).var(1).mean()])


def test_constant_features_and_constant_targets_are_no_obstacle():
    rows = np.concatenate([X, np.ones((300, 2))], 1)
    function = fit_partition(gf.kernels.Matern(1.0), rows, np.ones((300, 1)), 0.1, Partition(60), intercept=True)
    np.testing.assert_allclose(function.predict(rows), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("integers", [False, True])
def test_the_order_of_the_rows_does_not_matter(integers):
    rows = random.integers(0, 12, (300, 2)) * 1.0 if integers else X  # with ties and repetitions
    order = random.permutation(300)
    one = fit_partition(KERNEL, rows, Y, 0.1, Partition(40, 0.1))
    other = fit_partition(KERNEL, rows[order], Y[order], 0.1, Partition(40, 0.1))
    np.testing.assert_array_equal(one.points, other.points)
    np.testing.assert_allclose(one.predict(NEW), other.predict(NEW), rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise_share", [0.02, 0.3])
def test_intervals_cover_what_they_should(noise_share):
    """Ninety percent of new observations of a Gaussian process with the kernel and the noise that the leaves know.

    The mean over ten processes of 500 observations each: its standard deviation is near 0.6 percent, so that three of
    them and the caution of leaves that know their own rows only are within the bounds.
    """
    kernel, covered = gf.kernels.Matern(1.0), []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        points = draw.uniform(0, 6, (1400, 2))
        root = np.linalg.cholesky(kernel(points) + noise_share * np.eye(1400))
        y = 3 * root @ draw.normal(size=(1400, 1)) + 5
        train, test = slice(0, 900), slice(900, 1400)
        function = fit_partition(kernel, points[train], y[train], noise_share, Partition(200, 0.1), intercept=True)
        deviation = np.sqrt(function.variance(points[test]) + function.noise_variance)
        covered.append(np.mean(np.abs(function.predict(points[test]) - y[test]) < 1.6449 * deviation))
    assert 0.88 < np.mean(covered) < 0.94


def test_far_from_all_rows_the_variance_is_the_priors():
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(60))
    np.testing.assert_allclose(function.variance(np.array([[1e3, -1e3]])), function.scale[None], rtol=1e-9)


def test_points_of_every_kind_give_the_same_function():
    kernel, partition = gf.kernels.Gaussian(1.0), Partition(100, 0.1)
    expected = fit_partition(kernel, X, Y, 0.1, partition).predict(NEW)
    sparse_fit = fit_partition(kernel, sparse.csr_array(X), Y, 0.1, partition)
    np.testing.assert_allclose(sparse_fit.predict(sparse.csr_array(NEW)), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(sparse_fit.predict(NEW), expected, rtol=0, atol=1e-10)
    tensors = fit_partition(kernel, torch.from_numpy(X), Y, 0.1, partition)
    np.testing.assert_array_equal(tensors.predict(torch.from_numpy(NEW)), expected)
    narrow = fit_partition(kernel, X.astype(np.float32), Y, 0.1, partition)
    assert narrow.points.dtype == np.float32
    # Coefficients are below 30 in sum of absolute values, and entries of K round by 1e-7.
    np.testing.assert_allclose(narrow.predict(NEW.astype(np.float32)), expected, rtol=0, atol=1e-4)
    source = gf.data.open(NEW, dtype=np.float64).X
    np.testing.assert_allclose(
        fit_partition(kernel, X, Y, 0.1, partition).predict(source), expected, rtol=0, atol=1e-12
    )


def test_leaves_solved_at_the_same_time_are_the_same():
    one = fit_partition(KERNEL, X, Y, 0.1, Partition(60), threads=1)
    two = fit_partition(KERNEL, X, Y, 0.1, Partition(60), threads=2)
    np.testing.assert_array_equal(one.coefficients, two.coefficients)


def test_leaves_factored_at_the_same_time_have_the_same_variances(monkeypatch):
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(60))
    found = []
    for threads in (1, 3):
        seen = set()
        monkeypatch.setattr("gyrfalcon.partition.function.threads_to_share", lambda threads=threads: threads)
        build = gf.partition.leaves.LeafPosterior.__init__

        def spy(posterior, *args, seen=seen, build=build):
            seen.add(threading.get_ident())
            assert torch.get_num_threads() == 1
            build(posterior, *args)

        with monkeypatch.context() as patch:
            patch.setattr(gf.partition.leaves.LeafPosterior, "__init__", spy)
            found.append(dataclasses.replace(function, _posteriors={}).variance(NEW))
        assert (threading.get_ident() in seen) == (threads == 1)
    np.testing.assert_array_equal(*found)


def test_the_text_of_a_function_is_a_line():
    text = repr(fit_partition(KERNEL, X, Y, 0.1, Partition(60)))
    assert text.startswith("LocalFunction(kernel=ProductLaplacian(")
    assert "leaves of up to" in text
    assert len(text) < 200


def test_a_leaf_beyond_the_memory_budget_is_refused():
    with pytest.raises(ValueError, match=r"partition: a leaf of \d+ rows takes .* lower leaf_rows"):
        fit_partition(KERNEL, X, Y, 0.1, Partition(200), memory_budget=100_000)


def test_rows_in_a_file_are_refused():
    with pytest.raises(TypeError, match="X must be in memory"):
        fit_partition(KERNEL, gf.data.open(X).X, Y, 0.1, Partition(200))


def test_arrays_hold_the_function_and_pickles_too():
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(60), weights=random.uniform(0.5, 2.0, 300), intercept=True)
    for again in (
        LocalFunction.from_arrays(KERNEL, function.to_arrays(), 2),
        pickle.loads(pickle.dumps(function)),
    ):
        np.testing.assert_array_equal(again.predict(NEW), function.predict(NEW))
        np.testing.assert_array_equal(again.variance(NEW), function.variance(NEW))


DAMAGE = {
    "offsets that go back": lambda a: a["offsets"].__setitem__(1, 0),
    "an end beyond the rows": lambda a: a["offsets"].__setitem__(-1, 10_000),
    "a coefficient too few": lambda a: a.__setitem__("coefficients", a["coefficients"][:-1]),
    "no number": lambda a: a["coefficients"].__setitem__((3, 0), np.inf),
    "float32": lambda a: a.__setitem__("scale", a["scale"].astype(np.float32)),
    "an intercept too many": lambda a: a.__setitem__("intercepts", np.zeros((99, 2))),
    "weights too few": lambda a: a.__setitem__("weights", np.ones(3)),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_arrays_that_do_not_fit_together_are_refused(how):
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(60))
    arrays = {name: array.copy() for name, array in function.to_arrays().items()}
    DAMAGE[how](arrays)
    with pytest.raises(ValueError, match="partition"):
        LocalFunction.from_arrays(KERNEL, arrays, 2)


def test_targets_in_other_units_scale_everything():
    unit = np.array([10.0, 0.1])
    function = fit_partition(KERNEL, X, Y, 0.1, Partition(60), intercept=True)
    scaled = fit_partition(KERNEL, X, Y * unit, 0.1, Partition(60), intercept=True)
    same = function.in_units(unit)
    np.testing.assert_allclose(same.predict(NEW), scaled.predict(NEW), rtol=1e-9)
    np.testing.assert_allclose(same.variance(NEW), scaled.variance(NEW), rtol=1e-7)
    np.testing.assert_allclose(same.noise_variance, scaled.noise_variance, rtol=1e-9)
