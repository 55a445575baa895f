"""Tuning: errors of left-out runs are those of models that did not see them."""

import numpy as np
import pytest

from gyrfalcon.dynamics import Koopman, tune
from gyrfalcon.dynamics.runs import Runs


def turning(runs=6, frames=60, seed=0, with_inputs=False):
    rng = np.random.default_rng(seed)
    found, inputs = [], []
    for _ in range(runs):
        x, u = [rng.normal(size=2)], rng.normal(size=(frames, 1))
        for t in range(frames - 1):
            a, b = x[-1]
            push = u[t, 0] if with_inputs else 0.0
            x.append(np.array([0.9 * a + 0.3 * b, 0.9 * b - 0.3 * np.sin(a) + 0.2 * push]) + 0.05 * rng.normal(size=2))
        found.append(np.array(x))
        inputs.append(u)
    return found, inputs


@pytest.mark.parametrize("method", ["rrr", "krr", "pcr"])
@pytest.mark.parametrize("horizon", [2, [2, 6]])
def test_errors_are_those_of_models_that_did_not_see_the_runs(method, horizon):
    runs, _ = turning()
    ranks = None if method == "krr" else [3, 5]
    model = Koopman(method, n_centers=25, lag=2, random_state=0)
    search = tune(model, runs, multiples=[1.0], penalties=[1e-4], ranks=ranks, horizon=horizon, folds=6)
    horizons = np.atleast_1d(horizon)
    order = [next(i for i, run in enumerate(runs) if np.array_equal(run, x)) for x in stacked(runs)]
    for candidate in search.candidates:
        squares, count = np.zeros(len(horizons)), np.zeros(len(horizons))
        for left in range(6):
            others = [runs[i] for place, i in enumerate(order) if place != left]
            centers = Koopman(n_centers=25, random_state=0).fit(runs)
            fitted = Koopman(
                method, kernel=centers.kernel_, centers=centers.centers_, lag=2, penalty=1e-4, rank=candidate.rank
            ).fit(others)
            errors = fitted.errors(runs[order[left]], [h // 2 for h in horizons])
            squares += np.square(errors.error).sum(1) * errors.count
            count += errors.count
        variance = sum(np.concatenate([run[h:] for run in runs]).var(0).sum() for h in horizons)
        expected = np.sqrt(squares.sum() / (variance * count.mean()))
        assert candidate.error == pytest.approx(expected, rel=1e-6)


def stacked(runs):
    """The runs in the order that they are put into."""
    kept = Runs.of(runs)
    everything = kept.rows.take(np.arange(int(kept.lengths.sum())))
    return np.split(everything, np.cumsum(kept.lengths)[:-1])


def test_multi_step_errors_with_inputs():
    runs, inputs = turning(with_inputs=True)
    model = Koopman("krr", n_centers=30, random_state=0)
    search = tune(
        model, runs, inputs=inputs, multiples=[1.0, 2.0], penalties=[1e-8, 1e-3, 1.0], horizon=[1, 5], folds=3
    )
    assert len(search.candidates) == 6
    assert search.best.error < 0.5 * search.persistence
    assert search.best.penalty < 1.0
    assert search.model.fit(runs, inputs=inputs).n_inputs_ == 1


def test_finds_the_length_scale_and_the_lag():
    runs, _ = turning()
    start = Koopman("krr", length_scale=30.0, n_centers=60, random_state=0)
    search = tune(start, runs, penalties=[1e-6, 1e-4], lags=[1, 2, 4], horizon=4)
    assert {candidate.lag for candidate in search.candidates} == {1, 2, 4}
    assert min(candidate.multiple for candidate in search.candidates) < 0.25  # it went on beyond the first grid
    assert search.best.error == min(candidate.error for candidate in search.candidates)
    assert search.best.error < 0.3 * search.persistence
    assert "persistence" in repr(search)
    assert start.length_scale == 30.0


def test_one_run_is_cut_into_blocks():
    run = turning(1, 400)[0][0]
    search = tune(Koopman(n_centers=30, random_state=0), run, penalties=[1e-6], multiples=[1.0])
    assert search.best.error < search.persistence


def test_bad_options():
    runs, _ = turning()
    with pytest.raises(ValueError, match="multiple of lag=2"):
        tune(Koopman(lag=2), runs, horizon=3)
    with pytest.raises(ValueError, match="folds"):
        tune(Koopman(), runs, folds=1)
    with pytest.raises(ValueError, match="ranks do not go"):
        tune(Koopman("krr"), runs, ranks=[2])
