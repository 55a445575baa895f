"""On-line detection: for each class a classifier of regions and a refiner of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from .frames import REGION_NEGATIVE, REGION_POSITIVE, Frame, quota_of
from .keys import shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap, ridge

Array = np.ndarray[Any, Any]

REFINER_PENALTY = 100.0


@dataclass(frozen=True)
class Detector:
    """A trained detector of one class: its classifier and its refiner."""

    classifier: Predictor
    weights: Array
    intercept: Array

    def scores(self, X: Array) -> Array:
        """Near 1 for regions that show the class and -1 for others."""
        return np.asarray(self.classifier(X)[:, 0])

    def codes(self, X: Array) -> Array:
        """How to move and stretch the boxes; see `boxes.decode`."""
        return np.asarray(X @ self.weights + self.intercept)


def train_detector(frames: Sequence[Frame], label: str, settings: Settings) -> Detector | None:
    """The detector of a class, or None if no frame shows it."""
    quota = quota_of(settings.total, len(frames))
    X, keys, codes, positive = [], [], [], []
    for frame in frames:
        rows, kind = frame.regions, frame.kind(label)
        shown = np.zeros(0, dtype=np.int64) if kind is None else rows.positive(kind, REGION_POSITIVE)
        eligible = rows.negative(kind, REGION_NEGATIVE)
        others = eligible[smallest(rows.keys[eligible], quota)]
        both = np.concatenate([shown, others])
        X.append(rows.X[both])
        keys.append(rows.keys[both])
        positive.append(np.arange(len(both)) < len(shown))
        codes.append(np.zeros((0, 4)) if kind is None else rows.codes[shown, kind])
    features, order, is_positive = (
        np.concatenate(X).astype(np.float32),
        shuffled_keys(np.concatenate(keys)),
        np.concatenate(positive),
    )
    shown, others = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    if len(shown) == 0:
        return None
    others = others[smallest(order[others], settings.total)]
    count = center_count(settings, len(shown) + len(others))
    first = shown[smallest(order[shown], max(count // 2, count - len(others)))]
    space = Whitened(settings, features, np.concatenate([first, others[: count - len(first)]]))
    beta, offset = minibootstrap(space, shown, others, settings)
    weights, intercept = ridge(features[shown], np.concatenate(codes), REFINER_PENALTY)
    return Detector(Predictor(space.kernel, space.centers, beta, np.array([offset])), weights, intercept)
