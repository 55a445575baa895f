"""On-line region proposals: for each anchor a classifier of locations and a refiner of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from . import anchors, boxes
from .features import FeatureMap
from .frames import LOCATION_NEGATIVE, LOCATION_POSITIVE, MOST_POSITIVES, REFINED, Frame, Quota
from .keys import shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap
from .regions import location_features

Array = np.ndarray[Any, Any]

REFINER_PENALTY = 0.1
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
    starts = np.cumsum([0, *(len(frame.locations.keys) for frame in frames)])
    keys = shuffled_keys(np.concatenate([frame.locations.keys for frame in frames]))
    quota = Quota.learned(settings.total, len(frames))
    kinds, pools = [], []
    for kind in range(anchors.COUNT):
        shown, refined, others = (_gathered(group, starts) for group in _groups(frames, kind, quota))
        if len(shown) and len(others):
            kinds.append(kind)
            rows = [(shown, MOST_POSITIVES), (refined, MOST_POSITIVES), (others, settings.total)]
            pools.append([own[smallest(keys[own], most)] for own, most in rows])
    if not kinds:
        return None
    used = np.unique(np.concatenate([rows for pool in pools for rows in pool]))
    pools = [[np.searchsorted(used, rows) for rows in pool] for pool in pools]
    X = np.concatenate([frame.locations.X for frame in frames])[used].astype(np.float32)
    codes = np.concatenate([frame.locations.codes for frame in frames])[used]
    space = Whitened(
        settings, X, _centers([pool[0] for pool in pools], [pool[2] for pool in pools], keys[used], settings)
    )
    classifiers = [minibootstrap(space, shown, others, settings) for shown, _, others in pools]
    refiners = [
        space.refiner(refined, codes[refined, kind], REFINER_PENALTY)
        for kind, (_, refined, _) in zip(kinds, pools, strict=True)
    ]
    return Proposer(np.array(kinds), space.predictor([*classifiers, *refiners]))


def _groups(frames: Sequence[Frame], kind: int, quota: Quota) -> tuple[list[Array], list[Array], list[Array]]:
    """Of each frame the positives, the rows that teach the refiner, and the negatives of an anchor."""
    groups: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    for frame in frames:
        rows = frame.locations
        found = (
            (rows.positive(kind, LOCATION_POSITIVE), quota.positives),
            (rows.positive(kind, REFINED), quota.positives),
            (rows.negative(kind, LOCATION_NEGATIVE), quota.negatives),
        )
        for group, (own, most) in zip(groups, found, strict=True):
            group.append(own[smallest(rows.keys[own], most)])
    return groups


def _gathered(groups: list[Array], starts: Array) -> Array:
    """Rows of frames as rows of all frames joined."""
    return np.concatenate([start + own for start, own in zip(starts, groups, strict=False)])


def _centers(positives: list[Array], negatives: list[Array], keys: Array, settings: Settings) -> Array:
    """Up to half of them positives of any anchor, the others negatives."""
    shown = np.unique(np.concatenate(positives))
    others = np.setdiff1d(np.unique(np.concatenate(negatives)), shown)
    count = center_count(settings, len(shown) + len(others))
    first = shown[smallest(keys[shown], max(count // 2, count - len(others)))]
    rest = others[smallest(keys[others], count - len(first))]
    return np.concatenate([first, rest])
