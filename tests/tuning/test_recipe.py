"""Automatic tuning: what it compares, what it chooses, and that it depends on the rows alone."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon import kernels as gk
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.tuning import Folds, Trace
from gyrfalcon.tuning.automatic import _most_rows
from gyrfalcon.tuning.full import HeldOut
from gyrfalcon.tuning.judging import Judged
from gyrfalcon.tuning.kinds import summed, worth_adding
from gyrfalcon.tuning.optimizers import Point
from gyrfalcon.tuning.parameters import Parameters
from gyrfalcon.tuning.recipe import STEPS
from gyrfalcon.tuning.reweighting import reweighted
from gyrfalcon.tuning.tuner import Tuned
from reference import kernels as oracle


def problem_of(kernel, X, y, penalty=1e-3, weights=None):
    Y = torch.from_numpy(y.reshape(len(y), -1))
    w = None if weights is None else torch.from_numpy(weights)[:, None]
    return LeastSquares(gf.KernelMatrix(kernel, X), Y, penalty, w)


def waves(n, d, seed=0):
    """A function of the first two of d features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


# Pieces.


@pytest.mark.parametrize("labels", ["last", "mixed", "folds"])
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_held_out_errors_are_those_of_plain_ridge_regression(labels, weighted):
    rng = np.random.default_rng(1)
    X, y = waves(60, 3)
    w = rng.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    parts = {"last": np.arange(60) >= 40, "mixed": rng.permutation(60) < 20, "folds": np.arange(60) % 3}[labels]
    parts = np.asarray(parts, dtype=np.int64)
    held = (0, 1, 2) if labels == "folds" else (1,)
    kernel, penalties = gk.Gaussian(1.3), np.array([1e-4, 1e-1])
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / (2 * 1.3**2))
    expected, weight = np.zeros(2), 0.0
    for fold in held:
        out, kept = parts == fold, parts != fold
        for place, penalty in enumerate(penalties):
            noise = penalty * w[kept].sum() / w[kept]
            alpha = np.linalg.solve(K[np.ix_(kept, kept)] + np.diag(noise), y[kept])
            expected[place] += (w[out] * (y[out] - K[np.ix_(out, kept)] @ alpha) ** 2).sum()
        weight += w[out].sum()
    found = HeldOut(problem_of(kernel, X, y, weights=w if weighted else None), Folds(parts, held))
    np.testing.assert_allclose([found.error(penalty) for penalty in penalties], expected / weight, rtol=1e-10)


def test_shrinkage_is_a_price_for_moves_with_the_right_gradient():
    X, y = waves(80, 3)
    problem = problem_of(gk.ProductLaplacian((2.0, 3.0, 4.0)), X, y)
    parameters, goal = Parameters(problem), gf.tuning.KFold(2)

    def value(theta):
        found = goal.evaluate(parameters.at(theta), gf.tuning.Exact())
        point = Point(found.value, parameters.gradient(theta, found.gradient), found.terms)
        return parameters.shrunk(theta, point, 0.3)

    theta = parameters.start + np.array([0.4, 0.2, -0.3, 0.1])
    plain = goal.evaluate(parameters.at(theta), gf.tuning.Exact()).value
    assert value(theta).value == pytest.approx(plain * np.exp(0.3 * (0.2**2 + 0.3**2 + 0.1**2)), rel=1e-12)
    assert value(parameters.start).value == pytest.approx(goal.evaluate(problem, gf.tuning.Exact()).value, rel=1e-12)
    step = 1e-6
    slopes = [(value(theta + step * e).value - value(theta - step * e).value) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(value(theta).gradient, slopes, rtol=1e-6)
    with pytest.raises(ValueError, match="shrinkage is a part of an error, which 'sgpr' is not"):
        gf.tuning.tune(problem, "sgpr", shrinkage=0.1)


@pytest.mark.parametrize(
    "kernel", [gk.Gaussian((2.0,) * 4), gk.Matern((2.0,) * 4, nu=1.5), gk.ProductLaplacian((4.0,) * 4)]
)
def test_length_scales_follow_the_slopes_of_the_fitted_function(kernel):
    X, y = waves(200, 4)
    problem = problem_of(kernel, X, y)
    before, after = (np.array(k.length_scale) for k in (kernel, reweighted(problem)))
    K = oracle.dense(kernel, X, X)
    alpha = np.linalg.solve(K + 1e-3 * 200 * np.eye(200), y)
    step = 1e-5  # of central differences, which at a kink are the mean of both sides
    slopes = [
        (oracle.dense(kernel, X + step * e, X) - oracle.dense(kernel, X - step * e, X)) @ alpha / (2 * step)
        for e in np.eye(4)
    ]
    relevance = before * np.sqrt(np.mean(np.square(slopes), axis=1))
    expected = before * relevance.mean() / relevance
    np.testing.assert_allclose(after, expected, rtol=1e-5)
    assert after[:2].max() < 0.5 * after[2:].min()


# The search.


def stages(model):
    return {stage.name: stage for stage in model.tuning_.stages}


def test_three_kinds_of_kernels_are_compared_and_the_decision_is_told():
    X, y = waves(300, 5)
    model = gf.KernelRegressor().fit(X, y)
    found = stages(model)
    assert [c.kernel.split("(")[0] for c in found["kernel"].candidates] == ["Gaussian", "Matern", "ProductLaplacian"]
    decided = found["length scales"]
    assert any(step in decided.reason for step in STEPS)
    values = [candidate.value for candidate in decided.candidates]
    assert values[decided.chosen] <= 1.01 * min(values)
    assert repr(model.kernel_).split("(")[0] == decided.candidates[decided.chosen].kernel.split("(")[0]


def test_features_that_do_not_matter_get_long_length_scales():
    X, y = waves(600, 8)
    scales = np.array(gf.KernelRegressor().fit(X, y).kernel_.length_scale)
    assert scales[:2].max() < 0.25 * np.median(scales[2:])


def test_steps_along_the_features_call_for_the_kernel_of_tables():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 6))
    y = 2.0 * (X[:, 0] > 0.3) + (X[:, 1] > 0.6) + (X[:, 2] > 0.5) + 0.2 * rng.normal(size=900)
    assert isinstance(gf.KernelRegressor().fit(X, y).kernel_, gk.ProductLaplacian)


def test_a_smooth_function_calls_for_a_smooth_kernel():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(900, 4))
    y = np.sin(3 * X @ np.array([1.0, 0.5, -0.7, 0.3])) + 0.01 * rng.normal(size=900)
    assert isinstance(gf.KernelRegressor().fit(X, y).kernel_, gk.Gaussian)


def test_what_screening_takes_for_noise_is_found_by_gradients():
    """Of 30 features two matter: with one factor for all there is next to nothing to see."""
    X, y = waves(2000, 30, seed=3)
    labels = y > np.median(y)
    model = gf.KernelClassifier().fit(X[:1500], labels[:1500])
    assert model.score(X[1500:], labels[1500:]) > 0.85


@pytest.mark.parametrize("steps", [False, True], ids=["waves", "waves and steps"])
def test_the_sum_of_all_kinds_is_taken_unless_it_errs_more(steps):
    X, y = waves(390, 2)
    if steps:
        y = 2 * np.exp(-3 * (X**2).sum(1)) + np.floor(2 * X[:, 0])
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    stage = stages(model)["sum of kernels"]
    alone, added = stage.candidates
    assert stage.chosen == int(added.value < (1 + gf.tuning.Recipe().tie) * alone.value) == int(steps)
    assert isinstance(model.kernel_, gk.Sum) == steps
    assert added.kernel.startswith("Sum(left=")
    assert added.kernel.count("Scaled(") >= 2
    again = gf.KernelRegressor(random_state=1).fit(X[::-1], y[::-1])
    assert again.kernel_ == model.kernel_


def test_parts_of_a_sum_have_the_ratios_of_signal_to_noise_that_they_have_alone():
    X, y = waves(30, 2)
    noises = {gk.Gaussian(1.0): 0.3, gk.Warped(gk.ProductLaplacian(2.0), [0], [[0.0, 1.0]], [[0.0, 1.0]]): 0.1}
    parts = [Judged(Tuned(problem_of(kernel, X, y), Trace()), 0, 0.5, noise) for kernel, noise in noises.items()]
    kernel, noise = summed(parts)
    assert noise == pytest.approx(0.15)  # half of the noise of each where both fit alike
    assert kernel.left == 0.25 * gk.Gaussian(1.0)
    assert isinstance(kernel.right, gk.Warped)
    assert kernel.right.kernel == 0.75 * gk.ProductLaplacian(2.0)


def test_kernels_after_one_map_are_added_inside_of_it():
    X, y = waves(30, 2)
    one, other = ([[0.0, 1.0]], [[0.0, 1.0]]), ([[0.0, 1.0]], [[0.0, 3.0]])
    inner = gk.Gaussian(1.0), gk.ProductLaplacian(2.0), gk.Matern(3.0, nu=1.5)
    kernels = gk.Warped(inner[0], [0], *one), gk.Warped(inner[1], [0], *other), gk.Warped(inner[2], [0], *one)
    parts = [
        Judged(Tuned(problem_of(kernel, X, y), Trace()), 0, 0.5, noise)
        for kernel, noise in zip(kernels, (1, 1, 2), strict=True)
    ]
    kernel, _ = summed(parts)
    assert kernel.left == gk.Warped(0.4 * inner[0] + 0.2 * inner[2], [0], *one)
    assert kernel.right == gk.Warped(0.4 * inner[1], [0], *other)
    plainly = sum(share * part(X, X) for share, part in zip((0.4, 0.4, 0.2), kernels, strict=True))
    np.testing.assert_allclose(kernel(X, X), plainly, rtol=1e-12)


def test_a_hint_of_a_share_in_a_sum_is_not_worth_its_time():
    X, y = waves(30, 2)
    noises = 1.0, 0.01, 0.4  # shares of 1 %, 97 % and 2.4 %
    parts = [Judged(Tuned(problem_of(gk.Gaussian(1.0), X, y), Trace()), 0, 0.5, noise) for noise in noises]
    assert worth_adding(parts) == parts  # the first is the best kernel
    assert worth_adding([parts[1], parts[0], parts[2]]) == [parts[1], parts[2]]


@pytest.mark.parametrize("noisy", [False, True])
def test_a_kernel_of_the_other_metric_goes_on_unless_it_is_far_behind(noisy):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + (1.0 if noisy else 0.1) * rng.normal(size=500)
    for both in (False, True):
        recipe = gf.tuning.Recipe(finalists=1, both_metrics=both)
        found = stages(gf.KernelRegressor(tune=gf.tuning.Tuning(recipe=recipe)).fit(X, y))
        count = 1 + (both and noisy)
        assert found["kernel"].reason.endswith(f"{count} of 3 go on")
        metrics = {c.kernel.split("(")[0] == "ProductLaplacian" for c in found["length scales"].candidates}
        assert len(metrics) == count


def test_many_rows_are_looked_at_in_batches():
    X, y = waves(2000, 12)
    few = gf.tuning.Tuning(recipe=gf.tuning.Recipe(search_rows=160, batches=1000))
    many = gf.tuning.Tuning(recipe=gf.tuning.Recipe(batch_rows=160))
    scores = []
    for settings in (few, many):
        model = gf.KernelRegressor("gaussian", n_centers=100, tune=settings, random_state=0).fit(X, y)
        scores.append(model.score(*waves(1000, 12, seed=9)))
    assert 1 - scores[1] < 0.9 * (1 - scores[0])


def test_wide_tables_are_looked_at_in_part():
    assert _most_rows(np.zeros((10, 10)), gf.tuning.Tuning()) == gf.tuning.Recipe().most_rows
    assert _most_rows(np.zeros((10, 1000)), gf.tuning.Tuning()) == 5000
    assert _most_rows(np.zeros((10, 10_000)), gf.tuning.Tuning()) == 3000
    assert _most_rows(np.zeros((10, 10)), gf.tuning.Tuning("gcv")) == 3000
    assert _most_rows(np.zeros((10, 10)), gf.tuning.Tuning(rows=70)) == 70


def test_sums_are_tried_only_where_kernels_are_open():
    X, y = waves(400, 3)
    without = gf.tuning.Tuning(recipe=gf.tuning.Recipe(sums=False))
    for settings in ({"kernel": "gaussian"}, {"tune": without}):
        assert "sum of kernels" not in stages(gf.KernelRegressor(**settings).fit(X, y))
    for settings in ({}, {"n_centers": 50}):
        assert "sum of kernels" in stages(gf.KernelRegressor(**settings).fit(X, y))


def test_noise_gives_a_constant_and_one_factor_for_all_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 6)), rng.normal(size=1500)
    model = gf.KernelRegressor().fit(X[:1000], y[:1000])
    assert np.mean((model.predict(X[1000:]) - y[1000:]) ** 2) < 1.03 * np.var(y[1000:])


def test_the_order_of_rows_and_the_units_of_features_do_not_matter():
    X, y = waves(400, 3)
    order = np.random.default_rng(5).permutation(400)
    model = gf.KernelRegressor().fit(X, y)
    shuffled = gf.KernelRegressor().fit(X[order], y[order])
    assert shuffled.kernel_.parameters() == model.kernel_.parameters()
    np.testing.assert_allclose(shuffled.predict(X), model.predict(X), rtol=1e-6, atol=1e-8)
    moved = gf.KernelRegressor().fit(1e3 * X + 7.0, y)
    np.testing.assert_allclose(
        np.array(moved.kernel_.length_scale), 1e3 * np.array(model.kernel_.length_scale), rtol=1e-3
    )


def test_per_feature_is_honored_in_both_directions():
    X, y = waves(700, 6)
    tuning = gf.tuning.Tuning
    common = np.array(gf.KernelRegressor(tune=tuning(per_feature=False)).fit(X, y).kernel_.length_scale)
    ratio = common / X.std(0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=0.05)  # two digits of each are kept
    each = gf.KernelRegressor(tune=tuning(per_feature=True)).fit(X, y)
    assert stages(each)["length scales"].reason.startswith(STEPS[-1])


def test_many_features_of_one_unit_may_share_a_length_scale():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(120, 64)).astype(float)
    X[:, 3] = np.where(np.arange(120) == 7, 255.0, 0.0)  # a pixel that is nearly always dark
    y = X[:, :32].sum(1) > X[:, 32:].sum(1)
    kernels = [c.kernel for c in stages(gf.KernelClassifier().fit(X, y))["kernel"].candidates]
    assert len(kernels) == 6
    X[:, ::2] *= 1e4
    kernels = [c.kernel for c in stages(gf.KernelClassifier().fit(X, y))["kernel"].candidates]
    assert len(kernels) == 3
