"""Whether a partition is kept is decided by rows held out of a trial."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.estimators.trial import LEAST_CENTERS, Way, _as_many_as, allowed_seconds, try_partition
from gyrfalcon.progress import duration
from gyrfalcon.solvers.choice import Expected, direct_seconds, expected
from gyrfalcon.tuning.rows import Data

PARTITION = gf.Partition(leaf_rows=150, centers=15)


def allow(monkeypatch, seconds):
    monkeypatch.setattr("gyrfalcon.estimators.trial.ALLOWED_SECONDS", seconds)
    monkeypatch.setattr("gyrfalcon.estimators.trial.ALLOWED_NS", 0.0)


def data(frequency, rows=1500, noise=0.05):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 1))
    return X, np.sin(frequency * X) + noise * rng.normal(size=(rows, 1))


def tried(frequency, length_scale, **options):
    X, Y = data(frequency)
    points = Data(X, Y, options.pop("weights", None))
    kernel = gf.kernels.Gaussian(length_scale)
    return try_partition(PARTITION, kernel, points, 1e-2, 40, intercept=True, memory_budget=10**9, **options)


def test_leaves_are_kept_where_centers_cannot_follow():
    partition, _, stage = tried(400.0, 0.003)
    assert partition is not None
    alone, leaves = stage.candidates[0].value, stage.candidates[stage.chosen].value
    assert "leaves of" in stage.candidates[stage.chosen].kernel
    assert leaves < 0.2 * alone


def test_centers_are_kept_where_they_err_no_more():
    partition, count, stage = tried(4.0, 0.5)
    assert partition is None
    assert "leaves" not in stage.candidates[stage.chosen].kernel
    assert "twice the time" in stage.reason
    assert count <= 40
    lowest = min(candidate.value for candidate in stage.candidates)
    assert stage.candidates[stage.chosen].value <= 1.03 * lowest


def test_leaves_are_not_tried_of_too_many_rows(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.trial.MOST_ROWS", 1000)
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 3)
    monkeypatch.setattr("gyrfalcon.estimators.trial.PRICE_BEYOND", 0.0)
    allow(monkeypatch, 1e-9)
    counts = {}
    for frequency, length_scale in ((60.0, 0.04), (1.0, 0.5)):
        partition, counts[frequency], stage = tried(frequency, length_scale)
        assert partition is None
        assert [candidate.kernel.rsplit(", ")[-1] for candidate in stage.candidates] == [
            f"{count} centers" for count in (3, 10, 20, 40)
        ]
    assert counts[60.0] == 40
    assert counts[1.0] <= 10


def test_weights_count():
    """Rows without weight say nothing: what happens there does not matter."""
    X, Y = data(400.0)
    Y[X < 0.5] = 0.0
    weights = np.where(X[:, 0] < 0.5, 1.0, 1e-9)
    points = Data(X, Y, weights)
    kernel = gf.kernels.Gaussian(0.003)
    partition, _, _ = try_partition(PARTITION, kernel, points, 1e-2, 40, intercept=True, memory_budget=10**9)
    assert partition is None


def test_few_rows_sparse_rows_and_sources_have_no_trial():
    X, Y = data(4.0, rows=250)
    kernel = gf.kernels.Gaussian(0.5)
    found = try_partition(PARTITION, kernel, Data(X, Y, None), 1e-2, 40, intercept=True, memory_budget=10**9)
    assert found == (None, 40, None)


@pytest.mark.parametrize(
    "settings", [{"loss": "robust"}, {"n_centers": 50}, {"solver": "direct"}, {"updatable": True}, {"tune": None}]
)
def test_what_is_set_is_not_tried(settings):
    X, Y = data(400.0, rows=300)
    model = gf.KernelRegressor(random_state=0, **settings).fit(X, Y[:, 0])
    assert model.partition_ is None


def test_the_decision_is_in_the_trace_and_a_warm_start_keeps_it(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.base.check_partition", lambda _: (PARTITION, True))
    monkeypatch.setattr("gyrfalcon.centers.automatic_count", lambda *_, **__: 40)
    X, Y = data(400.0)
    model = gf.KernelRegressor("gaussian", length_scale=0.003, warm_start=True, random_state=0).fit(X, Y[:, 0])
    assert "centers and leaves" in [stage.name for stage in model.tuning_.stages]
    assert model.partition_ is not None
    assert np.mean((model.predict(X) - Y[:, 0]) ** 2) < 0.1
    assert model.fit(X, Y[:, 0]).partition_ is not None


def test_rounding_is_nothing_to_fit():
    X, Y = np.repeat([[0.0], [1.0]], 400, axis=0), np.repeat([[1.0], [2.0]], 400, axis=0)
    found = try_partition(
        PARTITION, gf.kernels.Gaussian(0.5), Data(X, Y, None), 1e-6, 40, intercept=True, memory_budget=10**9
    )
    assert found.partition is None


def test_fewer_centers_are_taken_where_they_do(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 5)
    monkeypatch.setattr("gyrfalcon.estimators.trial.PRICE_BEYOND", 0.0)
    allow(monkeypatch, 1e-9)
    smooth, rough = tried(4.0, 0.5), tried(60.0, 0.02)
    assert smooth.n_centers == 10
    assert rough.n_centers > 10 or rough.partition is not None


def test_as_many_centers_as_are_allowed_are_no_question(monkeypatch):
    """Where noise hides what they are worth, and a sample is too small to show it."""
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 5)
    monkeypatch.setattr("gyrfalcon.estimators.trial.PRICE_BEYOND", 0.0)
    X, Y = data(4.0, noise=2.0)
    counts = []
    for seconds in (1e-9, 10.0):
        allow(monkeypatch, seconds)
        kernel = gf.kernels.Gaussian(0.5)
        found = try_partition(PARTITION, kernel, Data(X, Y, None), 1e-2, 40, intercept=True, memory_budget=10**9)
        alone = [candidate.kernel for candidate in found.stage.candidates if "leaves" not in candidate.kernel]
        counts.append((found.n_centers, len(alone)))
    assert counts[0][0] == 10
    assert counts[1] == (40, 1)


def test_noise_ends_a_trial_at_once_with_the_fewest_centers(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 10)
    X, _ = data(1.0)
    noise = np.random.default_rng(3).normal(size=(1500, 1))
    found = try_partition(
        PARTITION, gf.kernels.Gaussian(0.5), Data(X, noise, None), 1.0, 40, intercept=True, memory_budget=10**9
    )
    assert len(found.stage.candidates) == 1
    assert found.partition is None
    assert found.n_centers == 10


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_leaves_are_not_taken_where_centers_alone_leave_nothing(scale):
    """Leaves that cost less time come first: they make a model of every row of what a few centers know exactly."""
    X = np.random.default_rng(0).uniform(-2, 2, size=(7000, 2))
    Y = scale * X[:, :1]
    kernel = gf.kernels.Gaussian(3.0)
    found = try_partition(gf.Partition(), kernel, Data(X, Y, None), 1e-6, 2000, intercept=True, memory_budget=10**9)
    assert found.partition is None
    if not scale:
        assert found.n_centers == LEAST_CENTERS


def test_a_price_that_is_high_enough_buys_nothing(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.trial.PRICE_EXPONENT", 100.0)
    monkeypatch.setattr("gyrfalcon.estimators.trial.OTHER_SECONDS", 0.0)
    found = tried(400.0, 0.003)
    assert found.stage.chosen == 0
    assert len(found.stage.candidates) <= 3  # neither more centers nor larger leaves than those that did not pay


def test_what_takes_longer_than_is_allowed_has_a_higher_price(monkeypatch):
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 5)
    counts = []
    for allowed in (0.0, 10.0):
        monkeypatch.setattr("gyrfalcon.estimators.trial.ALLOWED_SECONDS", allowed)
        monkeypatch.setattr("gyrfalcon.estimators.trial.PRICE_BEYOND", 100.0)
        found = tried(60.0, 0.02)
        assert f"beyond {duration(allowed_seconds(1500, 1))} by" in found.stage.reason
        counts.append(found.n_centers)
    assert counts[0] < counts[1]


def test_as_many_centers_are_tried_as_are_allowed(monkeypatch):
    def price(posed):
        return Expected(None, posed.K.shape[1] / 100, "")

    monkeypatch.setattr("gyrfalcon.estimators.trial.expected", price)
    monkeypatch.setattr("gyrfalcon.estimators.trial.ALLOWED_SECONDS", 0.3)
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 5)
    kernels = [candidate.kernel for candidate in tried(60.0, 0.02).stage.candidates]
    tried_alone = [int(words.rsplit(", ")[-1].split()[0]) for words in kernels if "leaves" not in words]
    assert 27 <= tried_alone[0] <= 30


def test_the_search_for_what_is_allowed_ends_at_few_centers():
    fewest, most = (Way(count, None, float(count)) for count in (1, 4))
    assert _as_many_as(3.5, fewest, most, float).n_centers == 2
    assert _as_many_as(1.5, fewest, most, float).n_centers == 1


def test_centers_that_will_be_factored_have_the_price_of_that(monkeypatch):
    """Without noise, and with centers that know the kernel, iterations might not end."""
    seen = []

    def watched(posed):
        seen.append((posed, expected(posed)))
        return seen[-1][1]

    monkeypatch.setattr("gyrfalcon.estimators.trial.expected", watched)
    monkeypatch.setattr("gyrfalcon.estimators.trial.LEAST_CENTERS", 5)
    X, Y = data(4.0, rows=60_000, noise=0.0)
    kernel = gf.kernels.Gaussian(0.5)
    try_partition(PARTITION, kernel, Data(X, Y, None), 1e-6, 2000, intercept=True, memory_budget=10**9)
    prices = {posed.K.shape[1]: (posed, taken) for posed, taken in seen}
    posed, taken = prices[2000]
    assert taken.solver.name == "direct"
    assert taken.seconds == direct_seconds(posed)
