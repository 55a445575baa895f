"""On-line region proposals: for each anchor a classifier of locations and a refiner of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from . import anchors, boxes
from .features import FeatureMap
from .frames import LOCATION_NEGATIVE, LOCATION_POSITIVE, REFINED, Candidates, Frame, Quota
from .keys import shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap
from .regions import location_features

Array = np.ndarray[Any, Any]

PARTS = ("X", "keys", "overlap", "codes", "best")
REFINER_PENALTY = 0.1
MOST_POSITIVES = 500  # of one anchor
BEFORE_SUPPRESSION, AFTER_SUPPRESSION = 500, 120
SUPPRESSION = 0.7
SMALLEST_SIDE = 2.0  # pixels; smaller proposals are dropped


@dataclass(frozen=True)
class Proposer:
    """Trained proposals.

    Attributes
    ----------
    kinds : array of int
        The anchors that have a classifier.
    function : Predictor
        One score for each of them, and then four numbers for each of them, which refine its box.
    """

    kinds: Array
    function: Predictor

    def __call__(self, found: FeatureMap) -> tuple[Array, Array]:
        """Boxes, best first, and their scores."""
        outputs, count = self.function(location_features(found)), len(self.kinds)
        scores, codes = outputs[:, :count], outputs[:, count:].reshape(len(outputs), count, 4)
        placed = anchors.anchors(found.shape, anchors.grid_of(found.grid))[:, self.kinds]
        order = np.argsort(-scores, axis=None, kind="stable")[:BEFORE_SUPPRESSION]
        rows, kinds = np.unravel_index(order, scores.shape)
        refined = boxes.clip(boxes.decode(placed[rows, kinds], codes[rows, kinds]), found.shape)
        large = (refined[:, 2:] - refined[:, :2] >= SMALLEST_SIDE).all(1)
        refined, ranked = refined[large], scores[rows, kinds][large]
        kept = boxes.non_maximum_suppression(refined, ranked, SUPPRESSION)[:AFTER_SUPPRESSION]
        return refined[kept], ranked[kept]


def train_proposals(frames: Sequence[Frame], settings: Settings) -> Proposer | None:
    """Classifiers and refiners of all anchors that have positives and negatives; None if none has.

    All share their centers, so that the kernel is evaluated once for all of them.
    """
    joined = Candidates(*(np.concatenate([getattr(one.locations, part) for one in frames]) for part in PARTS))
    frame = np.repeat(np.arange(len(frames)), [len(one.locations.keys) for one in frames])
    shuffled = shuffled_keys(joined.keys)
    pools = _pools(joined, frame, shuffled, Quota.learned(settings.total, len(frames)), settings.total)
    if not pools:
        return None
    used = np.unique(np.concatenate([rows for pool in pools.values() for rows in pool]))
    pools = {kind: tuple(np.searchsorted(used, rows) for rows in pool) for kind, pool in pools.items()}
    X, codes = joined.X[used].astype(np.float32), joined.codes[used]
    space = Whitened(settings, X, _centers(list(pools.values()), shuffled[used], settings))
    classifiers = [minibootstrap(space, shown, others, settings) for shown, _, others in pools.values()]
    refiners = [
        space.refiner(refined, codes[refined, kind], REFINER_PENALTY) for kind, (_, refined, _) in pools.items()
    ]
    return Proposer(np.array(list(pools)), space.predictor([*classifiers, *refiners]))


def _pools(joined: Candidates, frame: Array, shuffled: Array, quota: Quota, total: int) -> dict[int, tuple[Array, ...]]:
    """For each anchor that has both: positives, rows that teach the refiner, and negatives.

    Negatives of all anchors are taken from the same locations, the first of each frame by their keys.
    """
    order = np.lexsort((joined.keys, frame))
    common = np.zeros(len(order), dtype=bool)
    common[_first(order, frame, quota.negatives)] = True
    overlap, best = np.ascontiguousarray(joined.overlap.T), np.ascontiguousarray(joined.best.T)
    pools = {}
    for kind in np.flatnonzero(((overlap > LOCATION_POSITIVE) | best).any(1)).tolist():
        shown, refined = (
            _first(order[((overlap[kind] > least) | best[kind])[order]], frame, quota.positives)
            for least in (LOCATION_POSITIVE, REFINED)
        )
        others = np.flatnonzero(common & (overlap[kind] < LOCATION_NEGATIVE) & ~best[kind])
        if len(others):
            most = ((shown, MOST_POSITIVES), (refined, MOST_POSITIVES), (others, total))
            pools[kind] = tuple(_smallest(shuffled, rows, count) for rows, count in most)
    return pools


def _first(rows: Array, frame: Array, most: int) -> Array:
    """Of rows that are sorted by frame the first ones of each frame."""
    own = frame[rows]
    return np.asarray(rows[np.arange(len(rows)) - np.searchsorted(own, own) < most])


def _smallest(keys: Array, rows: Array, most: int) -> Array:
    return np.asarray(rows[smallest(keys[rows], most)])


def _centers(pools: list[tuple[Array, ...]], keys: Array, settings: Settings) -> Array:
    """Up to half of them positives of any anchor, the others negatives."""
    shown = np.unique(np.concatenate([pool[0] for pool in pools]))
    others = np.setdiff1d(np.unique(np.concatenate([pool[2] for pool in pools])), shown)
    count = center_count(settings, len(shown) + len(others))
    first = _smallest(keys, shown, max(count // 2, count - len(others)))
    return np.concatenate([first, _smallest(keys, others, count - len(first))])
