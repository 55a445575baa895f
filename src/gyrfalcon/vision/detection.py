"""On-line detection: for each class a classifier, a refiner of boxes and silhouettes, all with the same centers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from .frames import MOST_POSITIVES, REGION_NEGATIVE, REGION_POSITIVE, Frame, Quota
from .keys import balanced, shuffled_keys, smallest
from .minibootstrap import Settings, Whitened, center_count, minibootstrap
from .silhouettes import INSIDE, SIDE

Array = np.ndarray[Any, Any]

REFINER_PENALTY, SHAPE_PENALTY = 1.0, 0.1
COLUMNS = 5  # of each class: the score and the refinement of the box


@dataclass(frozen=True)
class Detectors:
    """Trained detectors.

    Attributes
    ----------
    labels : tuple of str
        The classes that have one.
    function : Predictor
        Five outputs for each of them, one class after another.
    shapes : Predictor
        Likewise SIDE² outputs, their silhouettes.
    """

    labels: tuple[str, ...]
    function: Predictor
    shapes: Predictor

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Scores of regions, near 1 for those that show a class and -1 for others, and codes; see `boxes.encode`.

        Of shape (n, classes) and (n, classes, 4).
        """
        found = self.function(X).reshape(len(X), len(self.labels), COLUMNS)
        return found[:, :, 0], found[:, :, 1:]

    def silhouettes(self, label: str, X: Array) -> Array:
        """Of regions that show a class, near 1 inside and -1 outside, of shape (n, SIDE, SIDE)."""
        found = self.shapes(X).reshape(len(X), len(self.labels), SIDE, SIDE)
        return found[:, self.labels.index(label)]


@dataclass(frozen=True)
class Pool:
    """What a detector learns from: rows of the regions of all frames, in the order of their shuffled keys.

    Attributes
    ----------
    shown, others : arrays of int
        Positives and negatives.
    codes : array of shape (len(shown), 4)
    shapes : array of int8 of shape (len(shown), SIDE²)
    """

    shown: Array
    others: Array
    codes: Array
    shapes: Array


def train_detectors(frames: Sequence[Frame], labels: Iterable[str], settings: Settings) -> Detectors | None:
    """Detectors of all classes that are shown and that are not everywhere; None if there is none.

    They share their centers, so that the kernel is evaluated once for all of them, in learning and in finding.
    """
    starts = np.cumsum([0, *(len(frame.regions.keys) for frame in frames)])
    keys = shuffled_keys(np.concatenate([frame.regions.keys for frame in frames]))
    found = {label: _pool(frames, label, starts, keys, settings) for label in sorted(labels)}
    pools = {label: pool for label, pool in found.items() if len(pool.shown) and len(pool.others)}
    if not pools:
        return None
    used = np.unique(np.concatenate([rows for pool in pools.values() for rows in (pool.shown, pool.others)]))
    pools = {
        label: replace(pool, shown=np.searchsorted(used, pool.shown), others=np.searchsorted(used, pool.others))
        for label, pool in pools.items()
    }
    space = Whitened(settings, _features(frames, starts, used), _centers(list(pools.values()), keys[used], settings))
    solutions, shapes = [], []
    for pool in pools.values():
        refiner = space.refiner(pool.shown, pool.codes, REFINER_PENALTY)
        shapes.append(space.refiner(pool.shown, pool.shapes / INSIDE, SHAPE_PENALTY))
        solutions += [minibootstrap(space, pool.shown, pool.others, settings), refiner]
    return Detectors(tuple(pools), space.predictor(solutions), space.predictor(shapes))


def _pool(frames: Sequence[Frame], label: str, starts: Array, keys: Array, settings: Settings) -> Pool:
    quota = Quota.learned(settings.total, len(frames))
    positives, negatives, codes, shapes = [], [], [np.zeros((0, 4))], [np.zeros((0, SIDE**2), dtype=np.int8)]
    for frame, start in zip(frames, starts[:-1], strict=True):
        rows, kind = frame.regions, frame.kind(label)
        eligible = rows.negative(kind, REGION_NEGATIVE)
        negatives.append(start + eligible[smallest(rows.keys[eligible], quota.negatives)])
        if kind is not None:
            own = rows.positive(kind, REGION_POSITIVE)
            own = own[smallest(rows.keys[own], quota.positives)]
            positives.append(start + own)
            codes.append(rows.codes[own, kind])
            shapes.append(rows.shapes[own, kind])
    shown = np.concatenate([np.zeros(0, dtype=np.int64), *positives])
    order = smallest(keys[shown], MOST_POSITIVES)
    others = np.concatenate(negatives)
    room = max(settings.batch_size, settings.total - len(order))  # so that the work does not grow with the positives
    kept = others[smallest(keys[others], room)]
    return Pool(shown[order], kept, np.concatenate(codes)[order], np.concatenate(shapes)[order])


def _centers(pools: list[Pool], keys: Array, settings: Settings) -> Array:
    """Up to half of them positives, of each class as many as of the others, and the rest negatives."""
    shown, first = np.unique(np.concatenate([pool.shown for pool in pools]), return_index=True)
    kinds = np.repeat(np.arange(len(pools)), [len(pool.shown) for pool in pools])[first]
    others = np.setdiff1d(np.unique(np.concatenate([pool.others for pool in pools])), shown)
    count = center_count(settings, len(shown) + len(others))
    taken = shown[balanced(kinds, keys[shown], max(count // 2, count - len(others)))]
    return np.concatenate([taken, others[smallest(keys[others], count - len(taken))]])


def _features(frames: Sequence[Frame], starts: Array, used: Array) -> Array:
    """Features of some regions, in the order of frames."""
    found = np.empty((len(used), frames[0].regions.X.shape[1]), dtype=np.float32)
    limits = np.searchsorted(used, starts)
    for place, frame in enumerate(frames):
        own = slice(limits[place], limits[place + 1])
        found[own] = frame.regions.X[used[own] - starts[place]]
    return found
