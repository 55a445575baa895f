"""On-line detection: for each class a classifier of regions and a refiner of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from .frames import MOST_POSITIVES, REGION_NEGATIVE, REGION_POSITIVE, Frame, Quota
from .keys import shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap

Array = np.ndarray[Any, Any]

REFINER_PENALTY = 1.0


@dataclass(frozen=True)
class Detector:
    """A trained detector of one class: a function with five outputs, the score and the refinement of the box."""

    function: Predictor

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Scores, near 1 for regions that show the class and -1 for others, and codes; see `boxes.decode`."""
        found = self.function(X)
        return found[:, 0], found[:, 1:]


def train_detector(frames: Sequence[Frame], label: str, settings: Settings) -> Detector | None:
    """The detector of a class, or None if no frame shows it, or none shows anything else."""
    quota = Quota.learned(settings.total, len(frames))
    keys, codes, positive, taken = [], [], [], []
    for frame in frames:
        rows, kind = frame.regions, frame.kind(label)
        shown = np.zeros(0, dtype=np.int64) if kind is None else rows.positive(kind, REGION_POSITIVE)
        shown = shown[smallest(rows.keys[shown], quota.positives)]
        eligible = rows.negative(kind, REGION_NEGATIVE)
        others = eligible[smallest(rows.keys[eligible], quota.negatives)]
        both = np.concatenate([shown, others])
        taken.append(both)
        keys.append(rows.keys[both])
        positive.append(np.arange(len(both)) < len(shown))
        codes.append(np.zeros((len(both), 4)) if kind is None else rows.codes[both, kind])
    order, is_positive = shuffled_keys(np.concatenate(keys)), np.concatenate(positive)
    shown, others = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    if len(shown) == 0 or len(others) == 0:
        return None
    shown = shown[smallest(order[shown], MOST_POSITIVES)]
    room = max(settings.batch_size, settings.total - len(shown))  # so that the work does not grow with the positives
    others = others[smallest(order[others], room)]
    features, aims = _features(frames, taken, np.concatenate([shown, others])), np.concatenate(codes)[shown]
    shown, others = np.split(np.arange(len(features)), [len(shown)])
    count = center_count(settings, len(features))
    first = shown[: max(count // 2, count - len(others))]
    space = Whitened(settings, features, np.concatenate([first, others[: count - len(first)]]))
    refiner = space.refiner(shown, aims, REFINER_PENALTY)
    classifier = minibootstrap(space, shown, others, settings)
    return Detector(space.predictor([classifier, refiner]))


def _features(frames: Sequence[Frame], taken: list[Array], chosen: Array) -> Array:
    """Features of some of the rows that were taken of each frame, in the order in which they were chosen."""
    found = np.empty((len(chosen), frames[0].regions.X.shape[1]), dtype=np.float32)
    frame, row = np.repeat(np.arange(len(frames)), [len(rows) for rows in taken])[chosen], np.concatenate(taken)[chosen]
    for number, one in enumerate(frames):
        own = frame == number
        found[own] = one.regions.X[row[own]]
    return found
