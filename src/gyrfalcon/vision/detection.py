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
    X, keys, codes, positive = [], [], [], []
    for frame in frames:
        rows, kind = frame.regions, frame.kind(label)
        shown = np.zeros(0, dtype=np.int64) if kind is None else rows.positive(kind, REGION_POSITIVE)
        shown = shown[smallest(rows.keys[shown], quota.positives)]
        eligible = rows.negative(kind, REGION_NEGATIVE)
        others = eligible[smallest(rows.keys[eligible], quota.negatives)]
        both = np.concatenate([shown, others])
        X.append(rows.X[both])
        keys.append(rows.keys[both])
        positive.append(np.arange(len(both)) < len(shown))
        codes.append(np.zeros((len(both), 4)) if kind is None else rows.codes[both, kind])
    order, is_positive = shuffled_keys(np.concatenate(keys)), np.concatenate(positive)
    shown, others = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    if len(shown) == 0 or len(others) == 0:
        return None
    shown = shown[smallest(order[shown], MOST_POSITIVES)]
    others = others[smallest(order[others], settings.total)]
    count = center_count(settings, len(shown) + len(others))
    first = shown[: max(count // 2, count - len(others))]
    features = np.concatenate(X).astype(np.float32)
    space = Whitened(settings, features, np.concatenate([first, others[: count - len(first)]]))
    classifier = minibootstrap(space, shown, others, settings)
    refiner = space.refiner(shown, np.concatenate(codes)[shown], REFINER_PENALTY)
    return Detector(space.predictor([classifier, refiner]))
