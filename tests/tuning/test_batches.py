"""Tuning on batches: which rows they hold, the gradient of each, and what their mean is worth."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon import kernels as gk
from gyrfalcon.tuning import KFold
from gyrfalcon.tuning.batches import Batches, _point, tune_on_batches
from gyrfalcon.tuning.journal import Journal
from gyrfalcon.tuning.optimizers import Point, Search, averaged_adam
from gyrfalcon.tuning.parameters import Parameters
from gyrfalcon.tuning.rows import Data, noise_of
from gyrfalcon.tuning.stages import Run

BUDGET = 1 << 30


def data_of(n, d=4, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    return Data(X, (y - y.mean())[:, None] / y.std(), rng.uniform(0.5, 2.0, n) if weighted else None)


def run_of(**changed):
    settings = {
        "settings": gf.tuning.Tuning(),
        "objective": KFold(folds=2, random_state=None),
        "entries": 10**4,
        "fixed_penalty": False,
        "fixed_kernel": False,
        "callback": lambda step: False,
        "deadline": None,
        "moves_centers": False,
    }
    return Run(**settings | changed)


def start_of(data, d=4, noise=0.1):
    return data.problem(gk.Gaussian([1.5] * d), None, noise, BUDGET)


def test_all_rows_are_taken_before_any_is_taken_again():
    data = data_of(103)
    start, batches = start_of(data), Batches(data, 25, BUDGET)

    def rows(number):
        points = batches(start, number).K.centers
        return {int(np.flatnonzero((data.points == point).all(1))[0]) for point in np.asarray(points)}

    first, second = [rows(number) for number in range(4)], [rows(number) for number in range(4, 8)]
    for epoch in (first, second):
        assert [len(part) for part in epoch] == [25] * 4
        assert len(set().union(*epoch)) == 100
    assert first != second
    assert rows(2) == first[2]  # the same number, the same rows


def test_a_batch_has_the_noise_and_the_kernel_of_the_start():
    data = data_of(300, weighted=True)
    start = start_of(data)
    batch = Batches(data, 50, BUDGET)(start, 3)
    assert noise_of(batch) == pytest.approx(noise_of(start), rel=1e-12)
    assert batch.K.kernel == start.K.kernel
    assert batch.K.shape == (50, 50)


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_gradients_of_a_batch_are_those_of_its_value(weighted):
    data = data_of(120, weighted=weighted)
    start = start_of(data)
    problem = Batches(data, 40, BUDGET)(start, 1)
    parameters = Parameters(start)
    theta = parameters.start + np.linspace(-0.3, 0.3, len(parameters.start))
    found = _point(parameters, theta, problem, run_of(), 1e-3)
    step, numeric = 1e-5, []
    for place in range(len(theta)):
        move = step * np.eye(len(theta))[place]
        up, down = (_point(parameters, theta + side * move, problem, run_of(), 1e-3).value for side in (1, -1))
        numeric.append((up - down) / (2 * step))
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-6, atol=1e-9)


def test_the_mean_of_the_last_steps_is_nearer_to_the_minimum_than_a_step():
    truth = np.array([0.7, -0.4])
    errors = []
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def sample(theta, rng=rng):
            center = truth + 0.5 * rng.normal(size=2)
            away = theta - center
            return Point(1 + float(away @ away), 2 * away, {})

        path = []
        search = Search(sample, np.full(2, -5.0), np.full(2, 5.0), 60, None, lambda t, p, path=path: path.append(t))
        mean = averaged_adam(search, np.zeros(2), learning_rate=0.15)
        steps = np.linalg.norm(np.asarray(path[-24:]) - truth, axis=1)
        errors.append((np.linalg.norm(mean - truth), steps.mean()))
    mean, step = np.mean(errors, axis=0)
    assert mean < 0.9 * step
    assert mean < 0.25


def test_samples_without_a_value_are_passed_over_and_none_at_all_is_an_error():
    calls = []

    def sometimes(theta):
        calls.append(theta)
        if len(calls) % 2:
            raise torch.linalg.LinAlgError("not positive definite")
        return Point(float(theta @ theta) + 1, 2 * theta, {})

    search = Search(sometimes, np.full(1, -5.0), np.full(1, 5.0), 40, None, lambda *_: False)
    assert abs(averaged_adam(search, np.ones(1), learning_rate=0.15)[0]) < 0.3

    def never(theta):
        raise FloatingPointError("no value")

    search = Search(never, np.full(1, -5.0), np.full(1, 5.0), 5, None, lambda *_: False)
    with pytest.raises(FloatingPointError, match="raise the penalty or the length scale"):
        averaged_adam(search, np.ones(1), learning_rate=0.15)


def test_a_search_that_is_ended_at_once_stays_where_it_was():
    search = Search(lambda theta: Point(1.0, theta, {}), np.full(2, -5.0), np.full(2, 5.0), 9, None, lambda *_: True)
    np.testing.assert_array_equal(averaged_adam(search, np.ones(2), learning_rate=0.15), [1.0, 1.0])
    assert search.message == "a callback asked for it"


def test_length_scales_of_features_that_matter_become_shorter_than_those_of_others():
    data = data_of(1500)
    tuned = tune_on_batches(
        start_of(data), Batches(data, 100, BUDGET), run_of(), steps=40, learning_rate=0.15, shrinkage=8 / 1500
    )
    scales = np.asarray(tuned.problem.K.kernel.length_scale)
    assert scales[:2].max() < 0.5 * scales[2:].min()
    assert len(tuned.trace.steps) == tuned.trace.evaluations == 40
    assert tuned.trace.best == 39  # what is kept is the mean of the last steps, not the luckiest batch
    assert tuned.problem.K.shape == (1500, 1500)


def test_what_is_fixed_stays_and_a_callback_ends_the_search():
    data = data_of(400)
    start, batches = start_of(data), Batches(data, 100, BUDGET)
    settings = {"steps": 6, "learning_rate": 0.15, "shrinkage": 0.0}
    penalty = tune_on_batches(start, batches, run_of(fixed_penalty=True), **settings).problem
    assert penalty.penalty == start.penalty
    assert penalty.K.kernel != start.K.kernel
    kernel = tune_on_batches(start, batches, run_of(fixed_kernel=True), **settings).problem
    assert kernel.K.kernel == start.K.kernel
    assert kernel.penalty != start.penalty
    seen = []
    tuned = tune_on_batches(
        start, batches, run_of(callback=lambda step: bool(seen.append(step)) or len(seen) == 3), **settings
    )
    assert len(tuned.trace.steps) == 3
    assert tuned.trace.message == "a callback asked for it"


def test_a_journal_repeats_the_search_bit_for_bit():
    data = data_of(400)
    start, batches = start_of(data), Batches(data, 100, BUDGET)
    settings = {"steps": 8, "learning_rate": 0.15, "shrinkage": 0.01}
    kept = []
    journal = Journal(None, lambda snapshot: kept.append(snapshot()))
    whole = tune_on_batches(start, batches, run_of(journal=journal), **settings).problem
    plain = tune_on_batches(start, batches, run_of(), **settings).problem
    assert whole.K.kernel == plain.K.kernel
    for facts, arrays in (kept[2], kept[-1]):
        again = tune_on_batches(start, batches, run_of(journal=Journal((facts, arrays), lambda *_: None)), **settings)
        assert again.problem.K.kernel == whole.K.kernel
        assert again.problem.penalty == whole.penalty
