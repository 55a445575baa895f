"""Kernel and noise are corrected by rows that lie as close together as all rows do."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

import gyrfalcon as gf
from gyrfalcon.tuning.full import left_out
from gyrfalcon.tuning.neighborhoods import COUNT, ROWS, SHORTER, ask_neighbors, confirmed, neighborhoods
from gyrfalcon.tuning.rows import Data, shuffled

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = gf.kernels.Gaussian([3.0] * 4)


def people(rows=2400, each=4):
    """Rows of people, each with a level of its own that no feature tells, and one feature that changes."""
    rng = np.random.default_rng(0)
    person = rng.integers(rows // each, size=rows)
    own, level = rng.normal(size=(rows // each, 3)), rng.normal(size=rows // each)
    X = np.column_stack([own[person], rng.normal(size=rows)])
    return X, level[person] + 0.3 * own[person, 0] + 0.2 * X[:, 3] + 0.3 * rng.normal(size=rows)


def strangers(rows=2400):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 4))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=rows)


def parts_of(X, y, weights=None, kernel=KERNEL):
    data = Data(X, (y - y.mean())[:, None] / y.std(), weights)
    return [data.at(rows) for rows in neighborhoods(kernel, X)]


def asked(X, y, noise=1.0, weights=None, kernel=KERNEL, **more):
    return ask_neighbors(
        kernel, noise, parts_of(X, y, weights, kernel), **{"fixed_penalty": False, "memory_budget": 1 << 28} | more
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_that_is_left_out_is_predicted_by_ridge_regression_on_the_others(weighted):
    X, y = strangers(60)
    weights = np.random.default_rng(2).uniform(0.5, 2, 60) if weighted else None
    problem = Data(X, y[:, None], weights).problem(gf.kernels.Gaussian(1.0), None, 0.3, 1 << 28)
    found = left_out(problem)[:, 0].numpy()
    for row in (0, 17, 59):
        others = np.arange(60) != row
        ridge = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5)
        ridge.fit(X[others], y[others], None if weights is None else weights[others])
        assert found[row] == pytest.approx(y[row] - ridge.predict(X[[row]])[0], rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_mean_squares_of_rows_of_every_other_neighborhood(weighted):
    X, y = people()
    weights = np.random.default_rng(3).uniform(0.5, 2, len(y)) if weighted else None
    advice = asked(X, y, weights=weights)
    for candidate, kernel, noise in zip(
        advice.stage.candidates, (KERNEL, advice.kernel), (1.0, advice.noise), strict=True
    ):
        squares, counts = [], []
        for part in parts_of(X, y, weights)[1::2]:
            squares.append(left_out(part.problem(kernel, None, noise, 1 << 28)).numpy()[:, 0] ** 2)
            counts.append(np.ones(len(part.Y)) if weights is None else part.weights)
        expected = np.average(np.concatenate(squares), weights=np.concatenate(counts))
        assert candidate.value == pytest.approx(expected, rel=1e-8)
        assert candidate.penalty == noise


def test_what_tells_people_apart_gets_short_length_scales_and_what_changes_does_not():
    advice = asked(*people())
    assert advice.better
    assert advice.stage.chosen == 1
    before, after = (candidate.value for candidate in advice.stage.candidates)
    assert after < 0.7 * before
    own, changing = np.array(advice.kernel.length_scale[:3]), advice.kernel.length_scale[3]
    assert (own < 0.5 * changing).all()


def test_rows_that_have_nothing_to_do_with_each_other_change_nothing():
    X, y = strangers()
    kernel = gf.kernels.Gaussian([1.5, 20.0, 20.0, 20.0])
    advice = asked(X, y, noise=1.0, kernel=kernel)
    assert not advice.better
    assert (advice.kernel, advice.noise) == (kernel, 1.0)
    assert advice.stage.chosen == 0


def test_what_may_be_chance_is_not_taken():
    """Next to nothing but noise with a few very large errors, whose mean falls or rises as they happen to do."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(2400, 4)), rng.standard_t(1.2, size=2400)
    assert not asked(X, y, noise=1.0, correction=True).better


def test_a_noise_that_is_given_stays():
    advice = asked(*people(), fixed_penalty=True)
    assert advice.better
    assert advice.noise == pytest.approx(1.0)
    assert min(advice.kernel.length_scale) < SHORTER * 3


def test_a_correction_has_to_be_better_than_none():
    X, _ = strangers()
    noise = np.random.default_rng(4).normal(size=len(X))
    nothing = asked(X, noise, noise=0.1, correction=True)
    assert not nothing.better
    assert nothing.stage.candidates[0].kernel == "no correction"
    assert nothing.stage.candidates[0].value == pytest.approx(1, rel=0.1)  # the variance, which less noise would exceed
    assert asked(*people(), correction=True, worth=0.9).better


def test_kernels_of_mapped_features_are_tuned_in_the_features_that_they_see():
    X, y = people()
    warped = gf.kernels.Warped(KERNEL, [0], [[-10.0, 0.0, 10.0]], [[-10.0, 0.0, 20.0]])
    advice = asked(X, y, kernel=warped)
    Z = warped.warp(X)
    plain = asked(Z, y)
    assert isinstance(advice.kernel, gf.kernels.Warped)
    assert advice.kernel.map == warped.map
    np.testing.assert_allclose(advice.kernel.kernel.length_scale, plain.kernel.length_scale, rtol=1e-6)


def test_the_order_of_rows_does_not_matter():
    X, y = people()
    order = np.random.default_rng(4).permutation(len(y))
    found = {frozenset(part.tolist()) for part in neighborhoods(KERNEL, X)}
    assert found == {frozenset(order[part].tolist()) for part in neighborhoods(KERNEL, X[order])}
    one, other = asked(X, y), asked(X[order], y[order])
    assert one.noise == pytest.approx(other.noise, rel=1e-3)
    np.testing.assert_allclose(one.kernel.length_scale, other.kernel.length_scale, rtol=1e-3)


def test_repeated_rows_are_rows_of_that_weight():
    X, y = people(1200)
    problem = Data(X, y[:, None], np.full(len(y), 2.0)).problem(KERNEL, None, 1.0, 1 << 28)
    twice = Data(np.repeat(X, 2, 0), np.repeat(y, 2)[:, None], None).merged().problem(KERNEL, None, 1.0, 1 << 28)
    assert len(twice.Y) == len(y)
    assert np.sort(left_out(problem).numpy(), 0) == pytest.approx(np.sort(left_out(twice).numpy(), 0))


@pytest.mark.parametrize("tensor", [False, True])
def test_neighborhoods_are_parts_that_lie_together(tensor):
    X = np.random.default_rng(6).normal(size=(20_000, 2))
    parts = neighborhoods(gf.kernels.Gaussian([0.1, 10.0]), torch.from_numpy(X) if tensor else X)
    assert len(parts) == COUNT
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    for rows in parts:
        assert ROWS / 2 - 1 <= len(rows) <= ROWS
        assert np.ptp(X[rows, 0]) < 0.2 * np.ptp(X[:, 0])  # the scale of the other is so long that it hardly counts


def test_all_rows_are_asked_if_they_are_few():
    X, _ = strangers(1000)
    assert sorted(np.concatenate(neighborhoods(KERNEL, X))) == list(range(1000))


def test_too_few_different_rows_are_not_asked():
    X, y = people()
    assert asked(X[:500], y[:500]) is None
    assert asked(np.round(X / 4), y) is None
    assert asked(np.zeros_like(X), y) is None
    many = np.random.default_rng(0).normal(size=(len(y), 100))
    assert asked(many, y, kernel=gf.kernels.Gaussian([10.0] * 100)) is None


def test_what_neighbors_say_is_held_against_fits_to_all_others():
    X, y = people(1000)
    y = (y - y.mean()) / y.std()
    order = shuffled(X)
    kept, held = order[:-200], order[-200:]
    expected = []
    for scale, noise in ((3.0, 1.0), (0.5, 0.1)):
        ridge = KernelRidge(alpha=noise, kernel="rbf", gamma=1 / (2 * scale**2)).fit(X[kept], y[kept])
        expected.append(np.mean((ridge.predict(X[held]) - y[held]) ** 2) / np.mean(y**2))
    tried = [(gf.kernels.Gaussian(scale), noise) for scale, noise in ((3.0, 1.0), (0.5, 0.1))]
    for way in (1, -1):
        stage = confirmed(*tried[::way], Data(X, y[:, None], None), 1 << 28)
        np.testing.assert_allclose([candidate.value for candidate in stage.candidates], expected[::way], rtol=1e-6)
        assert stage.chosen == int(np.argmin(expected[::way]))


def test_what_rows_have_in_common_is_not_given_up_for_what_neighbors_have():
    """In a neighborhood a slope looks like a level; taken over all rows it is known better than levels are."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1800, 4))
    y = X @ [1.0, 1.0, 1.0, 1.0] + 1.5 * rng.normal(size=1800)
    few = {"screening_rows": 100, "search_rows": 100, "fitted_rows": 150, "judging_rows": 300, "batch_rows": 100}
    model = gf.KernelRegressor(random_state=0, verbose=False, tune=gf.tuning.Tuning(recipe=gf.tuning.Recipe(**few)))
    stages = {stage.name: stage for stage in model.fit(X, y).tuning_.stages}
    last = stages.get("neighbors and all others", stages["neighbors"])
    assert last.chosen == 0
    assert np.mean((model.predict(X) - X.sum(1)) ** 2) < 0.2


def test_estimators_learn_from_neighbors_and_say_so():
    X, y = people(3000, 3)
    few = {"screening_rows": 100, "search_rows": 100, "fitted_rows": 150, "judging_rows": 300, "batch_rows": 100}
    held = np.random.default_rng(7).random(len(y)) < 0.25

    def fitted(**more):
        recipe = gf.tuning.Recipe(**few, **more)
        model = gf.KernelRegressor(random_state=0, verbose=False, tune=gf.tuning.Tuning(recipe=recipe))
        model.fit(X[~held], y[~held])
        return np.mean((model.predict(X[held]) - y[held]) ** 2), model

    (asks, model), (alone, other) = fitted(), fitted(asks_neighbors=False)
    assert asks < 0.6 * alone
    (stage,) = (stage for stage in model.tuning_.stages if stage.name == "neighbors")
    assert stage.chosen == 1
    assert [stage.chosen for stage in model.tuning_.stages if stage.name == "neighbors and all others"] == [1]
    assert model.penalty_ == pytest.approx(stage.candidates[1].penalty)
    assert "neighbors" not in [stage.name for stage in other.tuning_.stages]
    assert "left out among its neighbors" in str(stage)
