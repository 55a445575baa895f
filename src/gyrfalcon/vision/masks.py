"""On-line masks: for each class a classifier of the pixels inside its boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas
from scipy.ndimage import maximum_filter
from torch.nn import functional

from gyrfalcon.kernels import Gaussian
from gyrfalcon.linalg.triangles import mirror
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.moments import Moments, Sums, Whitening

from .annotations import Instance
from .features import FeatureMap
from .frames import KEPT_TYPE, Frame, MaskRows, share
from .keys import balanced, candidate_keys, smallest
from .minibootstrap import Settings
from .regions import MASK_SIDE, grid_points, mask_features

Array = np.ndarray[Any, Any]

CORE = 0.7  # where only a box is known, its inner ellipse of this size is taken for the object
MARGIN = 1.5  # and what is outside of it, in a box larger by this factor, for background
MOST_SURE = 1.5  # the score of a sample above which nothing counts
SHAPE_WEIGHT = 0.5  # of the score of a silhouette
EDGE_WEIGHT = 3  # samples beside an outline are so many times as likely to be learned from


def mask_rows(
    found: FeatureMap, instances: list[Instance], ignore: Array | None, seed: int, digest: int, most: int
) -> MaskRows:
    """At most so many samples of the boxes of one class in a frame, those with the smallest keys in their order."""
    margins, inside, outside, edges = [], [], [], []
    for one in instances:
        margin = MARGIN if one.mask is None else 1.0
        x, y = (side[0] for side in grid_points(one.box[None], margin))
        if one.mask is None:
            within, without = _guess(x, y, one.box)
        else:
            within = one.mask[_pixel(y, found.shape[0])[:, None], _pixel(x, found.shape[1])]
            without = ~within
        if ignore is not None:
            without &= ~ignore[_pixel(y, found.shape[0])[:, None], _pixel(x, found.shape[1])]
        inside.append(within.ravel())
        outside.append(without.ravel())
        edges.append((maximum_filter(within, 3) & maximum_filter(without, 3)).ravel())
        margins.append(margin)
    marks, known = np.concatenate(inside), np.concatenate(outside) | np.concatenate(inside)
    keys = candidate_keys(seed, digest, len(marks), "masks")
    keys = np.where(np.concatenate(edges), keys // np.uint64(EDGE_WEIGHT), keys)
    eligible = np.flatnonzero(known)
    kept = eligible[smallest(keys[eligible], most)]
    features = np.empty((len(kept), len(found.values) + 2), dtype=KEPT_TYPE)
    of, cell = np.divmod(kept, MASK_SIDE**2)
    for number, (one, margin) in enumerate(zip(instances, margins, strict=True)):
        own = of == number
        features[own] = mask_features(found, one.box[None], margin, cell[own])
    return MaskRows(features, marks[kept], keys[kept])


def train_masks(frames: Sequence[Frame], label: str, settings: Settings) -> Predictor | None:
    """The function that is near 1 inside of objects of a class and -1 around them; None if no frame shows one."""
    rows = [frame.masks[label] for frame in frames if label in frame.masks]
    most = share(settings.total, len(rows))
    taken = [one.taken(most) for one in rows]
    inside = np.concatenate([one.inside for one in taken]) if taken else np.zeros(0, dtype=bool)
    if len(inside) == 0:
        return None
    X = np.concatenate([one.X for one in taken]).astype(np.float32)
    keys = np.concatenate([one.keys for one in taken])
    kernel, centers = Gaussian(settings.length_scale), X[balanced(inside.astype(np.int64), keys, settings.n_centers)]
    moments = _moments(KernelMatrix(kernel, X, centers), np.where(inside, 1.0, -1.0)[:, None])
    beta, intercept, _ = moments.solve(settings.penalty)
    return Predictor(kernel, centers, beta, intercept)


def _moments(K: KernelMatrix, targets: Array) -> Moments:
    """Those of all rows of a float32 kernel matrix, whitened after they are summed, which is half the work.

    The jitter of float32 entries bounds what whitening makes of the rounding of float64 sums.
    """
    whitening, entries = Whitening.of(K, torch.float32), np.ascontiguousarray(K.to_dense(), dtype=np.float64)
    second = blas.dsyrk(1.0, entries.T)
    mirror(second, from_lower=False)
    second = whitening.pull(whitening.pull(second).T)
    sums = Sums.of(np.ones(len(entries)), entries.T, targets)
    sums = replace(sums, features=whitening.pull(sums.features), cross=whitening.pull(sums.cross))
    return Moments(whitening, second, sums, len(entries), np.zeros(targets.shape[1]))


def predict_masks(model: Predictor | None, found: FeatureMap, boxes: Array, shapes: Array) -> tuple[Array, Array]:
    """Bool masks of shape (boxes, height, width), and how sure they are, from 0 to 1.

    The scores of samples and of silhouettes, of shape (boxes, SIDE, SIDE), are added up: the former know outlines, and
    the latter which of two objects is meant. How sure a mask is is the mean distance of its scores from the border
    between inside and outside. If nothing is known about masks of a class, they are the whole boxes, and sure.
    """
    masks = np.zeros((len(boxes), *found.shape), dtype=bool)
    if model is None or len(boxes) == 0:
        scores = np.full((len(boxes), 1, MASK_SIDE, MASK_SIDE), MOST_SURE)
    else:
        scores = model(mask_features(found, boxes))[:, 0].reshape(len(boxes), 1, MASK_SIDE, MASK_SIDE)
        fine = functional.interpolate(torch.from_numpy(shapes[:, None]), (MASK_SIDE, MASK_SIDE), mode="bilinear")
        scores = np.clip(scores, -MOST_SURE, MOST_SURE) + SHAPE_WEIGHT * fine.numpy()
    for place, box in enumerate(boxes):
        left, top = np.floor(box[:2]).astype(np.int64)
        right, bottom = np.ceil(box[2:]).astype(np.int64)
        right, bottom = min(right, found.shape[1]), min(bottom, found.shape[0])
        masks[place, top:bottom, left:right] = _stretched(scores[place], box, (left, top, right, bottom)) > 0
    return masks, np.minimum(np.abs(scores) / MOST_SURE, 1).mean((1, 2, 3))


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
