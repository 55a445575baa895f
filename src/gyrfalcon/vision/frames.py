"""What is kept of a frame for the classifiers of locations, of regions and of pixels.

A frame has many candidates. Which of them are kept is decided by their keys and by how many frames there are, and not
by when the frame came, so that the classifiers do not depend on the order of frames or of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from . import anchors, boxes
from .annotations import Instance
from .features import FeatureMap
from .keys import candidate_keys, smallest
from .regions import location_features, region_features
from .silhouettes import SIDE, silhouettes

Array = np.ndarray[Any, Any]
Rows = TypeVar("Rows", bound="Candidates")

FULL = 5  # frames fill the pools of candidates: what is learned from does not grow with more of them
STEP_DIGITS = 3  # of the number of frames that decides how much of each is kept
MOST_POSITIVES = 2000  # of one classifier
LOCATION_POSITIVE, LOCATION_NEGATIVE = 0.7, 0.3
REGION_POSITIVE, REGION_NEGATIVE = 0.6, 0.3
REFINED = 0.6  # boxes that overlap an instance by more teach the refiners
JITTERED = 40  # boxes near each instance that are candidates besides the anchors
SHIFT, STRETCH = 0.3, 0.35  # how far they are moved, in sides, and stretched, in logarithms
KEPT_TYPE = np.float16  # of features that are kept
IGNORED = 0.5  # the share of a candidate in the ignored part of a frame from which on it is left out


@dataclass(frozen=True)
class Candidates:
    """Candidates of one kind in a frame.

    Attributes
    ----------
    X : array of shape (n, d)
    keys : array of uint64 of shape (n,)
    overlap : array of shape (n, k)
        With the instances of each of k kinds: anchors for locations, classes in the frame for regions.
    codes : array of shape (n, k, 4)
        How the box becomes the instance that it overlaps most; see `boxes.encode`.
    best : array of bool of shape (n, k)
        Whether no box overlaps an instance more, so that it counts as positive whatever the overlap.
    """

    X: Array
    keys: Array
    overlap: Array
    codes: Array
    best: Array

    def positive(self, kind: int, least: float) -> Array:
        """Rows that show an instance of a kind."""
        return np.flatnonzero((self.overlap[:, kind] > least) | self.best[:, kind])

    def negative(self, kind: int | None, most: float) -> Array:
        """Rows that show none of a kind, and all rows if the frame has none of it."""
        if kind is None:
            return np.arange(len(self.keys))
        return np.flatnonzero((self.overlap[:, kind] < most) & ~self.best[:, kind])

    def taken(self: Rows, rows: Array) -> Rows:
        """Some of them."""
        return type(self)(*(getattr(self, part.name)[rows] for part in fields(self)))


@dataclass(frozen=True)
class Regions(Candidates):
    """Candidates that are regions.

    Attributes
    ----------
    shapes : array of int8 of shape (n, k, SIDE²)
        The silhouettes of the instances that those regions show which are positive; see `silhouettes`.
    """

    shapes: Array


@dataclass(frozen=True)
class MaskRows:
    """Samples of the boxes of one class in a frame, in the order of their keys.

    Attributes
    ----------
    X : array of shape (n, d)
    inside : array of bool of shape (n,)
        Whether a sample is in the mask of an instance.
    keys : array of uint64 of shape (n,)
    """

    X: Array
    inside: Array
    keys: Array

    def taken(self, count: int) -> MaskRows:
        """The first ones, copied, so that the others can be freed."""
        if count >= len(self.keys):
            return self
        return MaskRows(self.X[:count].copy(), self.inside[:count].copy(), self.keys[:count].copy())


@dataclass(frozen=True)
class Frame:
    """What is kept of one frame.

    Attributes
    ----------
    digest : int
        Of its content; frames are taken in the order of digests.
    labels : list of str
        The classes in it, in the order of the columns of `regions`.
    locations : Candidates
    regions : Regions
    masks : dict of str to MaskRows
        For each class in it.
    found : FeatureMap or None
        Only for the serial protocol, whose regions come from the trained proposals.
    instances : list of Instance
        Likewise.
    """

    digest: int
    labels: tuple[str, ...]
    locations: Candidates
    regions: Regions
    masks: Mapping[str, MaskRows] = field(default_factory=dict)
    found: FeatureMap | None = None
    instances: tuple[Instance, ...] = ()

    def kind(self, label: str) -> int | None:
        """The column of a class, or None if the frame does not have it."""
        return self.labels.index(label) if label in self.labels else None

    def pruned(self, locations: Quota, regions: Quota, masks: Mapping[str, int]) -> Frame:
        """With no more candidates of each kind than the quotas say; what is kept of less is kept of more."""
        return replace(
            self,
            masks={label: rows.taken(masks[label]) for label, rows in self.masks.items()},
            locations=prune(self.locations, locations, LOCATION_POSITIVE, LOCATION_NEGATIVE),
            regions=prune(self.regions, regions, REGION_POSITIVE, REGION_NEGATIVE),
        )


@dataclass(frozen=True)
class Quota:
    """How many candidates of one kind of a frame there may be, with the smallest keys.

    Pools hold a number of candidates, to which each of the frames contributes its share.
    """

    positives: int
    negatives: int

    @classmethod
    def learned(cls, negatives: int, frames: int) -> Quota:
        """Of each of so many frames, to learn from so many negatives of a kind."""
        return cls(share(MOST_POSITIVES, frames), share(negatives, frames))

    @classmethod
    def kept(cls, negatives: int, frames: int) -> Quota:
        """What is kept: what is learned from if up to half of the frames are forgotten."""
        return cls.learned(negatives, left(frames))


def share(total: int, frames: int) -> int:
    """What each of so many frames contributes to a pool that so many fill."""
    return -(-total // max(FULL, frames))


def left(frames: int) -> int:
    """How many frames are left at least if up to half of so many are forgotten.

    Rounded down to three binary digits, so that what is kept of all frames is cut rarely, and not with each new one.
    """
    half = (frames + 1) // 2
    digits = max(0, half.bit_length() - STEP_DIGITS)
    return half >> digits << digits


def prune(candidates: Rows, quota: Quota, positive: float, negative: float) -> Rows:
    """For each kind the positives and negatives with the smallest keys, and of all rows, as another kind may come."""
    kept = np.zeros(len(candidates.keys), dtype=bool)
    groups = [(candidates.negative(None, negative), quota.negatives)]
    for kind in range(candidates.overlap.shape[1]):
        groups.append((candidates.negative(kind, negative), quota.negatives))
        for least in {positive, REFINED}:
            groups.append((candidates.positive(kind, least), quota.positives))
    for group, count in groups:
        kept[group[smallest(candidates.keys[group], count)]] = True
    return candidates if kept.all() else candidates.taken(np.flatnonzero(kept))


def matched(candidates: Array, targets: Array) -> tuple[Array, Array]:
    """The largest overlap of each candidate with a target, and the codes that lead to that target."""
    if len(targets) == 0:
        return np.zeros(len(candidates)), np.zeros((len(candidates), 4))
    overlap = boxes.box_iou(candidates, targets)
    nearest = overlap.argmax(1)
    return overlap[np.arange(len(candidates)), nearest], boxes.encode(candidates, targets[nearest])


def locations_of(found: FeatureMap, targets: Array, ignore: Array | None, seed: int, digest: int) -> Candidates:
    """Locations of a frame with the overlaps of their anchors."""
    grid = anchors.grid_of(found.grid)
    placed = anchors.anchors(found.shape, grid)
    X = location_features(found)
    overlap, codes = matched(placed.reshape(-1, 4), targets)
    overlap, codes = overlap.reshape(len(X), -1), codes.reshape(len(X), -1, 4)
    best = np.zeros(overlap.shape, dtype=bool)
    for target in targets:
        own = boxes.box_iou(placed.reshape(-1, 4), target[None])[:, 0]
        if own.max(initial=0.0) <= LOCATION_POSITIVE:
            best.flat[int(own.argmax())] = own.max() > 0
    keys = candidate_keys(seed, digest, len(X), "locations")
    candidates = Candidates(X.astype(KEPT_TYPE), keys, overlap, codes, best)
    if ignore is None:
        return candidates
    outside = _share(ignore, boxes.clip(placed.reshape(-1, 4), found.shape)).reshape(overlap.shape) > IGNORED
    undecided = (LOCATION_NEGATIVE + REFINED) / 2
    return replace(candidates, overlap=np.where(outside & (overlap < undecided), undecided, overlap))


def regions_of(
    found: FeatureMap,
    instances: tuple[Instance, ...],
    labels: tuple[str, ...],
    ignore: Array | None,
    seed: int,
    digest: int,
    quota: Quota,
    proposed: Array | None = None,
) -> Regions:
    """Regions of a frame with their overlaps with the instances of each class.

    Candidates are all anchors and boxes near the instances, or boxes that were proposed and the instances' own.
    Features are made of those that the quota lets through.
    """
    shown = np.array([one.box for one in instances]).reshape(-1, 4)
    if proposed is None:
        placed = anchors.anchors(found.shape, anchors.grid_of(found.grid)).reshape(-1, 4)
        candidates = np.concatenate([shown, _jittered(shown, seed, digest), placed])
    else:
        candidates = np.concatenate([shown, _jittered(shown, seed, digest), proposed])
    candidates = boxes.clip(candidates, found.shape)
    kept = (candidates[:, 2:] - candidates[:, :2] >= 1).all(1)
    if ignore is not None:
        kept &= (_share(ignore, candidates) <= IGNORED) | (np.arange(len(candidates)) < len(shown))
    keys = candidate_keys(seed, digest, len(candidates), "regions")[kept]
    candidates = candidates[kept]
    by_label = [np.array([one.box for one in instances if one.label == label]).reshape(-1, 4) for label in labels]
    pairs = [matched(candidates, targets) for targets in by_label]
    overlap = np.column_stack([pair[0] for pair in pairs]) if pairs else np.zeros((len(keys), 0))
    codes = np.stack([pair[1] for pair in pairs], axis=1) if pairs else np.zeros((len(keys), 0, 4))
    rows = Candidates(np.arange(len(keys)), keys, overlap, codes, np.zeros(overlap.shape, dtype=bool))
    rows = prune(rows, quota, REGION_POSITIVE, REGION_NEGATIVE)
    placed = candidates[rows.X]
    shapes = _shapes(rows, placed, instances, labels)
    X = region_features(found, placed).astype(KEPT_TYPE)
    return Regions(X, rows.keys, rows.overlap, rows.codes, rows.best, shapes)


def _shapes(rows: Candidates, placed: Array, instances: tuple[Instance, ...], labels: tuple[str, ...]) -> Array:
    """Silhouettes of the instances that positive regions overlap most, of shape (regions, classes, SIDE²)."""
    shapes = np.zeros((len(placed), len(labels), SIDE**2), dtype=np.int8)
    for kind, label in enumerate(labels):
        shown = [one for one in instances if one.label == label]
        positive = rows.positive(kind, REGION_POSITIVE)
        nearest = boxes.box_iou(placed[positive], np.stack([one.box for one in shown])).argmax(1)
        for place, one in enumerate(shown):
            own = positive[nearest == place]
            shapes[own, kind] = silhouettes(one.mask, placed[own])
    return shapes


def _jittered(shown: Array, seed: int, digest: int) -> Array:
    """Boxes near those that are shown, always the same for the same frame."""
    random = np.random.default_rng([seed, digest])
    size, middle = shown[:, None, 2:] - shown[:, None, :2], (shown[:, None, :2] + shown[:, None, 2:]) / 2
    shape = (len(shown), JITTERED, 2)
    middle = middle + random.uniform(-SHIFT, SHIFT, shape) * size
    half = size * np.exp(random.uniform(-STRETCH, STRETCH, shape)) / 2
    return np.concatenate([middle - half, middle + half], axis=2).reshape(-1, 4)


def _share(mask: Array, placed: Array) -> Array:
    """Which share of each box is inside a mask, to the pixel."""
    integral = np.pad(mask.astype(np.int64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    left, top, right, bottom = np.rint(placed).astype(np.int64).T
    inside = integral[bottom, right] - integral[top, right] - integral[bottom, left] + integral[top, left]
    return np.asarray(inside / np.maximum(1, (right - left) * (bottom - top)))
