"""Hashed keys: uniform samples that do not depend on the order, with the law of Algorithm 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gyrfalcon.vision.frames import Candidates, Quota, prune
from gyrfalcon.vision.keys import candidate_keys, frame_digest, shuffled_keys, smallest


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60), st.integers(0, 10**6))
def test_the_smallest_of_the_smallest_are_the_smallest(count, first, second, seed):
    keys = candidate_keys(seed, 7, count)
    small, large = sorted((first, second))
    kept = smallest(keys, large)
    assert kept[smallest(keys[kept], small)].tolist() == smallest(keys, small).tolist()
    assert smallest(keys, large).tolist() == np.argsort(keys, kind="stable")[:large].tolist()


def test_keys_are_uniform_and_differ_between_frames_seeds_and_pools():
    keys = candidate_keys(0, 1, 20_000) / 2.0**64
    assert stats.kstest(keys, "uniform").pvalue > 1e-3
    neighbors = np.corrcoef(keys[:-1], keys[1:])[0, 1]
    assert abs(neighbors) < 4 / np.sqrt(len(keys))
    others = [candidate_keys(1, 1, 5), candidate_keys(0, 2, 5), candidate_keys(0, 1, 5, "regions")]
    assert all(not np.intersect1d(other, candidate_keys(0, 1, 5)).size for other in others)
    assert frame_digest(b"ab", b"c") != frame_digest(b"a", b"bc")


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr("gyrfalcon.vision.frames.FULL", 1)


def quota_of(total, frames):
    return Quota.learned(total, frames).negatives


def sample(seed, sizes, total, one_by_one):
    """Algorithm 1: of each image a share, pooled, cut to a total, in the order of batches."""
    kept = {}
    for number in range(len(sizes)):
        quota = quota_of(total, number + 1)
        for image in range(number + 1) if one_by_one else [number]:
            keys = candidate_keys(seed, image, sizes[image])
            rows = kept.get(image, np.arange(sizes[image])) if one_by_one else np.arange(sizes[image])
            kept[image] = rows[smallest(keys[rows], quota if one_by_one else quota_of(total, len(sizes)))]
    pool = [(candidate_keys(seed, image, sizes[image])[row], image, row) for image in kept for row in kept[image]]
    order = smallest(shuffled_keys(np.array([key for key, _, _ in pool])), total)
    return [(pool[place][1], int(pool[place][2])) for place in order]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_law_of_algorithm_1(one_by_one):
    """A chi-square test over seeds: each candidate of an image is as likely as the others, in the sample and in the
    first batch, and images have the shares that quotas give them."""
    sizes, total, seeds = (6, 10, 15), 12, 3000
    drawn = [sample(seed, sizes, total, one_by_one) for seed in range(seeds)]
    assert drawn[:20] == [sample(seed, sizes, total, not one_by_one) for seed in range(20)]
    for first in (total, 4):  # all batches, the first batch
        for image, size in enumerate(sizes):
            counts = np.zeros(size)
            for found in drawn:
                for which, row in found[:first]:
                    if which == image:
                        counts[row] += 1
            assert stats.chisquare(counts).pvalue > 1e-3
    quota = quota_of(total, len(sizes))
    assert all(sum(which == image for which, _ in found) == quota for found in drawn for image in range(3))
    # The pool is shuffled: each place goes to each image as often, and two places to pairs as without replacement.
    for place in (0, 5, 11):
        assert stats.chisquare(np.bincount([found[place][0] for found in drawn], minlength=3)).pvalue > 1e-3
    both = np.bincount([3 * found[0][0] + found[1][0] for found in drawn], minlength=9)
    chances = np.array([3 if first == second else 4 for first in range(3) for second in range(3)]) / 33
    assert stats.chisquare(both, seeds * chances).pvalue > 1e-3


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_pruning_twice_is_pruning_once(seed, first, second, positives):
    random = np.random.default_rng(seed)
    size, kinds = 60, 3
    overlap = random.random((size, kinds))
    best = random.random((size, kinds)) < 0.02
    rows = Candidates(np.arange(size), candidate_keys(seed, 0, size), overlap, np.zeros((size, kinds, 4)), best)
    small, large = sorted((first, second))
    once = prune(rows, Quota(positives, small), 0.7, 0.3)
    twice = prune(prune(rows, Quota(positives + 2, large), 0.7, 0.3), Quota(positives, small), 0.7, 0.3)
    assert once.X.tolist() == twice.X.tolist()
    for kind in range(kinds):
        wanted = rows.negative(kind, 0.3)
        wanted = wanted[smallest(rows.keys[wanted], small)]
        kept = once.negative(kind, 0.3)
        assert once.X[kept[smallest(once.keys[kept], small)]].tolist() == wanted.tolist()
        for least in (0.6, 0.7):  # the refiner's and the classifier's
            wanted, kept = rows.positive(kind, least), once.positive(kind, least)
            wanted = wanted[smallest(rows.keys[wanted], positives)]
            assert once.X[kept[smallest(once.keys[kept], positives)]].tolist() == wanted.tolist()
