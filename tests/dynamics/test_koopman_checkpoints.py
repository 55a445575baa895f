"""Checkpoints of fits: whatever was read before a process was killed is not read again, and the bits are the same."""

import numpy as np
import pytest

from gyrfalcon import checkpoints, data
from gyrfalcon.checkpoints import CheckpointError
from gyrfalcon.dynamics import Koopman


class Killed(BaseException):
    pass


class Reader(data.Source):
    """Rows of an array, whose passes end after so many of them, if that is given. What is read in passes is counted."""

    def __init__(self, rows, dies=None):
        self._rows, self.dies, self.passed = rows, dies, 0
        super().__init__("a test", rows.shape, rows.dtype)
        self.keeps_missing = True

    def chunk_rows(self):
        return 64

    def _read(self, start, stop):
        yield self._rows[start:stop]

    def chunks(self, start=0, stop=None, rows=None, *, through=None):
        for place, chunk in super().chunks(start, stop, rows, through=through):
            if stop is None:  # not one for some rows only
                if self.dies is not None and place.start >= self.dies:
                    raise Killed
                self.passed += len(chunk)
            yield place, chunk


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "PAUSE", 0)


def frames(seed=0, count=700):
    rng = np.random.default_rng(seed)
    X = np.zeros((count, 2))
    for t in range(1, count):
        X[t] = 0.9 * X[t - 1] + 0.3 * np.sin(X[t - 1][::-1]) + 0.2 * rng.normal(size=2)
    X[333] = np.nan
    return X


LABELS = np.repeat([0, 1, 2], [300, 250, 150])


def settings(**changed):
    # A random state that is not a number: the centers of the second call would be others.
    given = {"n_centers": 20, "rank": 5, "lag": 7, "random_state": np.random.RandomState(4)}
    return Koopman(**(given | changed))


@pytest.mark.filterwarnings("ignore::gyrfalcon.dynamics.RunWarning")
@pytest.mark.parametrize("killed_at", [64, 320, 640])
@pytest.mark.parametrize("budget", [None, 64 * 20 * 50])
def test_a_killed_fit_goes_on_with_the_same_bits(tmp_path, killed_at, budget):
    X = frames()
    expected = settings(memory_budget=budget).fit(Reader(X), trajectory=LABELS)
    model = settings(memory_budget=budget)
    with pytest.raises(Killed):
        model.fit(Reader(X, killed_at), trajectory=LABELS, checkpoint=tmp_path)
    assert any(tmp_path.iterdir())
    reader = Reader(X)
    model.fit(reader, trajectory=LABELS, checkpoint=tmp_path)
    assert not any(tmp_path.iterdir())
    np.testing.assert_array_equal(model.centers_, expected.centers_)
    for name in ("before", "between", "after"):
        np.testing.assert_array_equal(getattr(model.moments_.cross, name), getattr(expected.moments_.cross, name))
    np.testing.assert_array_equal(model.moments_.sums.cross, expected.moments_.sums.cross)
    np.testing.assert_array_equal(model.moments_.change, expected.moments_.change)
    assert model.n_pairs_ == expected.n_pairs_
    np.testing.assert_array_equal(model.eigenvalues_, expected.eigenvalues_)
    assert reader.passed == len(X) - killed_at


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    X = frames()[:300]
    with pytest.raises(Killed):
        settings().fit(Reader(X, 128), checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="differs in lag"):
        settings(lag=8).fit(Reader(X), checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="differs in the runs"):
        settings().fit(Reader(X + 1), checkpoint=tmp_path)


@pytest.mark.filterwarnings("ignore::gyrfalcon.dynamics.RunWarning")
def test_runs_in_memory_with_inputs(tmp_path, monkeypatch):
    from gyrfalcon.dynamics import runs as module

    monkeypatch.setattr(module, "CHUNK_ROWS", 100)
    X, rng = frames(), np.random.default_rng(1)
    lists = [X[:300], X[300:550]], [rng.normal(size=(300, 1)), rng.normal(size=(250, 1))]
    expected = Koopman("krr", n_centers=15, random_state=0).fit(lists[0], inputs=lists[1])
    blocks, calls = module.Runs.blocks, []

    def dying(self, rows, first=0):
        for place, block in enumerate(blocks(self, rows, first)):
            if first == 0 and place == 3:
                raise Killed
            calls.append(first)
            yield block

    monkeypatch.setattr(module.Runs, "blocks", dying)
    model = Koopman("krr", n_centers=15, random_state=0)
    with pytest.raises(Killed):
        model.fit(lists[0], inputs=lists[1], checkpoint=tmp_path)
    model.fit(lists[0], inputs=lists[1], checkpoint=tmp_path)
    assert 300 in calls
    np.testing.assert_array_equal(model.moments_.cross.before, expected.moments_.cross.before)
    np.testing.assert_array_equal(model.moments_.cross.between, expected.moments_.cross.between)
