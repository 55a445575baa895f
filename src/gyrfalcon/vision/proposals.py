"""On-line region proposals: for each anchor a classifier of locations and a refiner of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from . import anchors, boxes
from .features import FeatureMap
from .frames import LOCATION_NEGATIVE, LOCATION_POSITIVE, REFINED, Frame, quota_of
from .keys import shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap, ridge
from .regions import location_features

Array = np.ndarray[Any, Any]

REFINER_PENALTY = 10.0
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
    classifier : Predictor
        One score for each of them.
    weights, intercepts : arrays of shape (kinds, d, 4) and (kinds, 4)
        Of the refiners.
    """

    kinds: Array
    classifier: Predictor
    weights: Array
    intercepts: Array

    def __call__(self, found: FeatureMap) -> tuple[Array, Array]:
        """Boxes, best first, and their scores."""
        X = location_features(found)
        scores = self.classifier(X)
        placed = anchors.anchors(found.shape, anchors.grid_of(found.grid))[:, self.kinds]
        order = np.argsort(-scores, axis=None, kind="stable")[:BEFORE_SUPPRESSION]
        rows, kinds = np.unravel_index(order, scores.shape)
        codes = np.einsum("nd,ndt->nt", X[rows], self.weights[kinds]) + self.intercepts[kinds]
        refined = boxes.clip(boxes.decode(placed[rows, kinds], codes), found.shape)
        large = (refined[:, 2:] - refined[:, :2] >= SMALLEST_SIDE).all(1)
        refined, ranked = refined[large], scores[rows, kinds][large]
        kept = boxes.non_maximum_suppression(refined, ranked, SUPPRESSION)[:AFTER_SUPPRESSION]
        return refined[kept], ranked[kept]


def train_proposals(frames: Sequence[Frame], settings: Settings) -> Proposer | None:
    """Classifiers and refiners of all anchors that have positives; None if none has.

    All share their centers, so that the kernel is evaluated once for all of them.
    """
    X = np.concatenate([frame.locations.X for frame in frames]).astype(np.float32)
    keys = shuffled_keys(np.concatenate([frame.locations.keys for frame in frames]))
    starts = np.cumsum([0, *(len(frame.locations.keys) for frame in frames)])
    quota = quota_of(settings.total, len(frames))
    kinds, positives, negatives = [], [], []
    for kind in range(anchors.COUNT):
        own = _gather(frames, starts, kind, quota)
        if len(own[0]):
            kinds.append(kind)
            positives.append(own[0])
            negatives.append(own[1][smallest(keys[own[1]], settings.total)])
    if not kinds:
        return None
    space = Whitened(settings, X, _centers(positives, negatives, keys, settings))
    solutions = [minibootstrap(space, *pair, settings) for pair in zip(positives, negatives, strict=True)]
    beta = np.concatenate([solution[0] for solution in solutions], axis=1)
    offsets = np.array([solution[1] for solution in solutions])
    refiners = [_refiner(frames, kind) for kind in kinds]
    return Proposer(
        np.array(kinds),
        Predictor(space.kernel, space.centers, beta, offsets),
        np.stack([weights for weights, _ in refiners]),
        np.stack([intercepts for _, intercepts in refiners]),
    )


def _gather(frames: Sequence[Frame], starts: Array, kind: int, quota: int) -> tuple[Array, Array]:
    positives, negatives = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start, frame in zip(starts, frames, strict=False):
        rows = frame.locations
        positives.append(start + rows.positive(kind, LOCATION_POSITIVE))
        eligible = rows.negative(kind, LOCATION_NEGATIVE)
        negatives.append(start + eligible[smallest(rows.keys[eligible], quota)])
    return np.concatenate(positives), np.concatenate(negatives)


def _centers(positives: list[Array], negatives: list[Array], keys: Array, settings: Settings) -> Array:
    """Up to half of them positives of any anchor, the others negatives."""
    shown = np.unique(np.concatenate(positives))
    others = np.setdiff1d(np.unique(np.concatenate(negatives)), shown)
    count = center_count(settings, len(shown) + len(others))
    first = shown[smallest(keys[shown], max(count // 2, count - len(others)))]
    rest = others[smallest(keys[others], count - len(first))]
    return np.concatenate([first, rest])


def _refiner(frames: Sequence[Frame], kind: int) -> tuple[Array, Array]:
    rows = [frame.locations.positive(kind, REFINED) for frame in frames]
    X = np.concatenate([frame.locations.X[own] for frame, own in zip(frames, rows, strict=True)])
    codes = np.concatenate([frame.locations.codes[own, kind] for frame, own in zip(frames, rows, strict=True)])
    return ridge(X, codes, REFINER_PENALTY)
