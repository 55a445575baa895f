"""What a trained model finds in a frame: regions, refined and without doubles, and their masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.matrix.predictor import Predictor

from . import boxes
from .detection import Detectors
from .extractors import SamDecoder
from .features import FeatureMap
from .masks import predict_masks
from .proposals import Proposer
from .refinement import refined_masks
from .regions import region_features

Array = np.ndarray[Any, Any]

SUPPRESSION = 0.8  # of regions that overlap more the best one stays
MASK_SUPPRESSION = 0.7  # and so with masks; those that overlap less lose a part of their score
VOTE = 0.6  # regions that overlap one that is kept by more move its box to their mean, weighted by their scores
PROPOSED = 0.1  # the weight of a proposal's own score, beside the mean of what the detector says in each pass
BETWEEN_CLASSES = 0.5  # instances of different classes that overlap more are one, of the class that scores higher
PASSES = 2  # of refinement; the second looks at the boxes of the first
EVEN = 0.3  # the product of the scores of a region and of its mask that counts as 0.5
MOST_FOUND = 100  # instances in a frame


@dataclass(frozen=True)
class Found:
    """An instance that was found in a frame.

    Attributes
    ----------
    label : str
    score : float
        From 0 to 1.
    box : array of shape (4,)
        Left, top, right and bottom in pixels.
    mask : array of bool of shape (height, width)

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.vision import Found
    >>> Found("mug", 0.9, np.array([0, 0, 2, 1]), np.ones((1, 2), dtype=bool)).label
    'mug'
    """

    label: str
    score: float
    box: Array
    mask: Array


@dataclass
class Model:
    """What `train` makes, replaced as a whole, so that `predict` in another thread sees the old one or the new one."""

    proposer: Proposer
    detectors: Detectors | None
    masks: dict[str, Predictor]


def find(model: Model, found: FeatureMap, min_score: float, decoder: SamDecoder | None = None) -> list[Found]:
    """The instances in a frame, best first; their masks and boxes refined if there is a decoder."""
    if model.detectors is None:
        return []
    proposed, outputs = model.proposer(found)
    results: list[Found] = []
    for label, (regions, scores) in _refined(model.detectors, found, proposed, (1 + outputs) / 2).items():
        likely = np.flatnonzero(_squashed(scores) >= min_score)
        kept = likely[boxes.non_maximum_suppression(regions[likely], scores[likely], SUPPRESSION)[:MOST_FOUND]]
        placed = boxes.voted(regions[kept], regions[likely], scores[likely], VOTE)
        shapes = model.detectors.silhouettes(label, region_features(found, placed))
        masks, sure = predict_masks(model.masks.get(label), found, placed, shapes)
        ranked = _squashed(scores[kept] * sure)
        best, ranked = boxes.decayed(boxes.mask_iou(masks, masks), ranked, MASK_SUPPRESSION, min_score)
        pairs = [(placed[place], masks[place]) for place in best]
        if decoder is not None and len(best):
            pairs = refined_masks(decoder, found, placed[best], masks[best])
        results += [Found(label, float(score), box, mask) for score, (box, mask) in zip(ranked, pairs, strict=True)]
    return _one_class_each(results)[:MOST_FOUND]


def _refined(
    detectors: Detectors, found: FeatureMap, proposed: Array, proposals: Array
) -> dict[str, tuple[Array, Array]]:
    """For each class regions moved to where its detector wants them, several times over, and their scores.

    Scores are means over all places where a region was. The first places are the same for all classes.
    """
    count = len(detectors.labels)
    regions = np.repeat(proposed[None], count, axis=0)
    scores = np.repeat(PROPOSED * proposals[None], count, axis=0)
    kept = np.ones(scores.shape, dtype=bool)
    for turn in range(PASSES):
        outputs, codes = detectors(region_features(found, regions.reshape(-1, 4) if turn else proposed))
        if turn:
            own = np.arange(count)
            outputs = outputs.reshape(count, len(proposed), count)[own, :, own]
            codes = codes.reshape(count, len(proposed), count, 4)[own, :, own]
        else:
            outputs, codes = outputs.T, codes.transpose(1, 0, 2)
        scores = scores + (1 - PROPOSED) / PASSES * (1 + outputs) / 2
        moved = boxes.clip(boxes.decode(regions.reshape(-1, 4), codes.reshape(-1, 4)), found.shape)
        kept &= (moved[:, 2:] - moved[:, :2] >= 1).all(1).reshape(kept.shape)
        regions = moved.reshape(regions.shape)
    pairs = zip(regions, scores, kept, strict=True)
    return {label: (own[ok], score[ok]) for label, (own, score, ok) in zip(detectors.labels, pairs, strict=True)}


def _squashed(scores: Array) -> Array:
    """Scores as numbers between 0 and 1 that keep their order."""
    return np.asarray(1 / (1 + np.exp(4 * (EVEN - scores))))


def _one_class_each(found: list[Found]) -> list[Found]:
    """What was found, best first, without what another class has found with a higher score."""
    if not found:
        return []
    labels, scores = np.array([one.label for one in found]), np.array([one.score for one in found])
    regions = np.stack([one.box for one in found])
    table = np.where(labels[:, None] == labels, 0.0, boxes.box_iou(regions, regions))
    return [found[place] for place in boxes.suppressed(table, scores, BETWEEN_CLASSES)]
