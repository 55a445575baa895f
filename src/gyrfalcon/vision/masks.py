"""On-line masks: for each class a classifier of the pixels inside its boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gyrfalcon.matrix.predictor import Predictor

from .additive import LabeledRows
from .annotations import Instance
from .features import FeatureMap
from .keys import candidate_keys, smallest
from .regions import MASK_SIDE, grid_points, mask_features

Array = np.ndarray[Any, Any]

SUBSAMPLE = 0.3  # the share of the samples of a box that is learned from
CORE = 0.7  # where only a box is known, its inner ellipse of this size is taken for the object
MARGIN = 1.5  # and what is outside of it, in a box larger by this factor, for background
LARGEST_ROWS = 2000  # of one class in one frame


def mask_rows(
    found: FeatureMap, instances: list[Instance], ignore: Array | None, seed: int, digest: int
) -> LabeledRows:
    """Samples of the boxes of one class in a frame, of class 0 where the object is and 1 where it is not."""
    X, labels = [], []
    for one in instances:
        margin = MARGIN if one.mask is None else 1.0
        x, y = grid_points(one.box[None], margin)
        if one.mask is None:
            inside, outside = _guess(x[0], y[0], one.box)
        else:
            inside = one.mask[_pixel(y[0], found.shape[0])[:, None], _pixel(x[0], found.shape[1])]
            outside = ~inside
        if ignore is not None:
            outside &= ~ignore[_pixel(y[0], found.shape[0])[:, None], _pixel(x[0], found.shape[1])]
        X.append(mask_features(found, one.box[None], margin))
        labels.append(np.where(inside, 0, np.where(outside, 1, -1)).ravel())
    features, marks = np.concatenate(X), np.concatenate(labels)
    keys = candidate_keys(seed, digest, len(marks), "masks")
    known = np.flatnonzero(marks >= 0)
    count = min(LARGEST_ROWS, int(np.ceil(SUBSAMPLE * len(known))))
    kept = np.sort(known[smallest(keys[known], count)])
    return LabeledRows(features[kept], np.eye(2, dtype=np.float32)[marks[kept]], keys[kept])


def predict_masks(model: Predictor | None, found: FeatureMap, boxes: Array) -> tuple[Array, Array]:
    """Bool masks of shape (boxes, height, width), and how sure they are, from 0 to 1.

    That is the mean distance of a mask's scores from the border between inside and outside. If nothing is known about
    masks of a class, they are the whole boxes, and sure.
    """
    masks = np.zeros((len(boxes), *found.shape), dtype=bool)
    if model is None or len(boxes) == 0:
        scores = np.ones((len(boxes), 1, MASK_SIDE, MASK_SIDE))
    else:
        scores = model(mask_features(found, boxes))[:, 0].reshape(len(boxes), 1, MASK_SIDE, MASK_SIDE)
    for place, box in enumerate(boxes):
        left, top = np.floor(box[:2]).astype(np.int64)
        right, bottom = np.ceil(box[2:]).astype(np.int64)
        right, bottom = min(right, found.shape[1]), min(bottom, found.shape[0])
        masks[place, top:bottom, left:right] = _stretched(scores[place], box, (left, top, right, bottom)) > 0
    return masks, np.minimum(np.abs(scores), 1).mean((1, 2, 3))


def _stretched(scores: Array, box: Array, window: tuple[int, int, int, int]) -> Array:
    """Scores on the grid of a box as scores of the pixels of a window around it."""
    left, top, right, bottom = window
    x = 2 * (np.arange(left, right) + 0.5 - box[0]) / (box[2] - box[0]) - 1
    y = 2 * (np.arange(top, bottom) + 0.5 - box[1]) / (box[3] - box[1]) - 1
    grid = np.stack(np.meshgrid(x, y), axis=-1)[None]
    values = torch.from_numpy(scores.astype(np.float32))[None]
    stretched = functional.grid_sample(
        values, torch.from_numpy(grid.astype(np.float32)), padding_mode="border", align_corners=False
    )
    return np.asarray(stretched[0, 0].numpy())


def _guess(x: Array, y: Array, box: Array) -> tuple[Array, Array]:
    """What is surely inside and what is surely outside of an object of which only the box is known."""
    u = (2 * x - box[0] - box[2]) / (box[2] - box[0])
    v = (2 * y - box[1] - box[3]) / (box[3] - box[1])
    inside = u[None] ** 2 + v[:, None] ** 2 < CORE**2
    outside = (np.abs(u)[None] > 1) | (np.abs(v)[:, None] > 1)
    return inside, outside


def _pixel(places: Array, size: int) -> Array:
    return np.clip(places.astype(np.int64), 0, size - 1)
