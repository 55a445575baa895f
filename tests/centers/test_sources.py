"""Centers of rows that are read in chunks."""

import numpy as np
import pytest

from gyrfalcon import data
from gyrfalcon.centers import RULES, distinct, select
from gyrfalcon.kernels import Gaussian

pytestmark = pytest.mark.usefixtures("one_thread")


class Counted(data.ArraySource):
    passes = 0

    def _read(self, start, stop):
        self.passes += 1
        return super()._read(start, stop)


def _rows(n, d=2):
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)


@pytest.mark.parametrize("rule", RULES)
def test_centers_are_chosen_in_one_pass(rule):
    X = _rows(20_000)
    source = Counted(X)
    centers = select(rule, Gaussian(1.0), source, 20, random=np.random.default_rng(1), memory_budget=200_000)
    assert source.passes == 1
    assert centers.shape == (20, 2)
    assert centers.dtype == np.float32
    if rule != "kmeans":
        assert {tuple(row) for row in centers} <= {tuple(row) for row in X}


@pytest.mark.parametrize("rule", RULES)
def test_a_source_that_fits_gives_what_its_array_gives(rule):
    X, weights = _rows(300), np.arange(300.0)
    for w in (None, weights):
        found, expected = (
            select(rule, Gaussian(1.0), points, 70, weights=w, random=np.random.default_rng(1))
            for points in (data.open(X).X, X)
        )
        if rule == "uniform":  # sees 280 of 300 rows
            assert {tuple(row) for row in found} <= {tuple(row) for row in X}
        else:
            np.testing.assert_array_equal(found, expected)


def test_all_rows_have_the_same_chance_and_those_of_no_weight_none():
    X = np.arange(400, dtype=np.float32)[:, None]
    counts = np.zeros(400)
    for seed in range(200):
        rows = select("uniform", Gaussian(1.0), data.open(X).X, 20, random=np.random.default_rng(seed))[:, 0]
        counts[rows.astype(int)] += 1
    quarters = counts.reshape(4, 100).sum(1)  # 1000 each on average, with a deviation of 27
    assert np.abs(quarters - 1000).max() < 140
    weights = (np.arange(400) >= 350).astype(float)
    chosen = select("uniform", Gaussian(1.0), data.open(X).X, 20, weights=weights, random=np.random.default_rng(0))
    assert len(chosen) == 20
    assert chosen.min() >= 350


def test_few_distinct_rows_are_all_taken():
    X = np.tile(np.array([[3.0], [1.0], [2.0]], np.float32), (1000, 1))
    for rule in RULES:
        chosen = select(rule, Gaussian(1.0), data.open(X).X, 10, random=np.random.default_rng(0))
        assert chosen.tolist() == [[1.0], [2.0], [3.0]]


def test_complaints():
    source = data.open(_rows(50)).X
    with pytest.raises(TypeError, match=r"in memory.*to_array"):
        distinct(source)
    with pytest.raises(ValueError, match="not negative"):
        select("uniform", Gaussian(1.0), source, 5, weights=-np.ones(50), random=np.random.default_rng(0))
    with pytest.raises(ValueError, match="one entry per row"):
        select("uniform", Gaussian(1.0), source, 5, weights=np.ones(9), random=np.random.default_rng(0))
