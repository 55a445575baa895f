"""Settings of a partition that make no sense are refused by name."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.partition.tree import grow


@pytest.mark.parametrize(
    "bad",
    [
        {"leaf_rows": 1},
        {"leaf_rows": 100.0},
        {"leaf_rows": True},
        {"leaf_rows": "auto"},
        {"overlap": -0.1},
        {"overlap": 0.3},
        {"overlap": np.nan},
        {"overlap": "wide"},
        {"overlap": True},
        {"centers": 0},
        {"centers": 2.5},
        {"centers": None},
    ],
)
def test_bad_settings_are_refused(bad):
    name = next(iter(bad))
    with pytest.raises(ValueError, match=f"^{name} must be"):
        gf.Partition(**bad)


def test_numpy_numbers_are_taken():
    assert gf.Partition(np.int64(300), np.float32(0.125), np.int32(7)) == gf.Partition(300, 0.125, 7)


def test_borders_share_the_same_part_below_and_a_smaller_one_above():
    partition = gf.Partition(leaf_rows=1000, overlap=0.1)
    assert partition.shared_rows(800, 800) == 160
    assert partition.shared_rows(16_000, 16_000) == 800
    assert gf.Partition(overlap=0.0).shared_rows(800, 800) == 0
    assert gf.Partition(overlap=0.1).shared_rows(1, 1) == 1


@pytest.mark.parametrize("overlap", [0.0, 0.01, 0.1, 0.2])
@pytest.mark.parametrize("rows", [50, 101, 3000, 20_000])
def test_the_leaves_to_expect_are_those_that_grow(rows, overlap):
    partition = gf.Partition(100, overlap)
    leaves = grow(np.random.default_rng(0).normal(size=(rows, 2)), np.ones(2), partition)[1]
    count, size = partition.expected_leaves(rows)
    assert len(leaves) == count
    assert max(map(len, leaves)) == pytest.approx(size, abs=10)
