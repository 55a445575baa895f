"""Keys that make a random choice a fixed property of what is chosen.

Each candidate has a key, a hash of the seed, of its frame and of its place in it, and the candidates with the smallest
keys are kept. Keys are as good as independent and uniform, so what is kept is a uniform sample without replacement.
The q smallest of the p smallest are the q smallest, so it does not matter whether frames come together or one by one.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def frame_digest(*parts: bytes) -> int:
    """64 bits that stand for the content of a frame."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return int.from_bytes(digest.digest()[:8], "little")


def candidate_keys(seed: int, frame: int, count: int, pool: str = "") -> Array:
    """The keys of candidates 0, ..., count - 1 of a frame in a pool: uint64, as good as uniform.

    SplitMix64 of the place, started from a hash of the rest.
    """
    name = hashlib.sha256(f"{seed}/{frame}/{pool}".encode()).digest()
    start = np.uint64(int.from_bytes(name[:8], "little"))
    with np.errstate(over="ignore"):
        return _mixed(start + _GAMMA * np.arange(1, count + 1, dtype=np.uint64))


def shuffled_keys(keys: Array) -> Array:
    """Other keys for the same candidates, as good as independent of the first.

    Of a frame with many candidates the smallest keys are smaller than of one with few, so the order of pooled
    candidates by their keys is no shuffle. By these it is.
    """
    with np.errstate(over="ignore"):
        return _mixed(keys + _GAMMA)


def _mixed(z: Array) -> Array:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def smallest(keys: Array, count: int) -> Array:
    """Indices of the smallest keys, in the order of the keys."""
    if count < len(keys):
        kept = np.argpartition(keys, count)[:count] if count else np.zeros(0, dtype=np.int64)
    else:
        kept = np.arange(len(keys))
    return np.asarray(kept[np.argsort(keys[kept], kind="stable")])


def balanced(labels: Array, keys: Array, count: int) -> Array:
    """Indices of rows with the smallest keys, of each label as many as of the others as far as there are so many."""
    order, seen = smallest(keys, len(keys)), np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int64)
    ranks = np.empty(len(keys), dtype=np.int64)
    for label in range(len(seen)):
        own = order[labels[order] == label]
        ranks[own] = np.arange(len(own))
    return np.lexsort((keys, ranks))[:count]
