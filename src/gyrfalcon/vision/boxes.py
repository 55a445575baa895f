"""Boxes: overlaps, suppression, and the codes of refinements. A box is (left, top, right, bottom) in pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TINY = 1e-9  # the least weight of a box
DECAY = 0.8  # the square of an overlap over this is the logarithm of what a score loses by it
LARGEST_LOG = 4.0  # of a refined side over the side it started from


def areas(boxes: Array) -> Array:
    """Of boxes of shape (n, 4)."""
    return np.asarray(np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1))


def box_iou(first: Array, second: Array) -> Array:
    """Intersection over union of each box of one set with each of another, of shape (n, m).

    >>> import numpy as np
    >>> from gyrfalcon.vision import box_iou
    >>> box_iou(np.array([[0, 0, 2, 2]]), np.array([[1, 0, 3, 2], [5, 5, 6, 6]])).round(3).tolist()
    [[0.333, 0.0]]
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    inside = np.prod(np.maximum(high - low, 0), axis=2)
    union = areas(first)[:, None] + areas(second)[None] - inside
    return np.asarray(np.divide(inside, union, out=np.zeros_like(inside), where=union > 0))


def mask_iou(first: Array, second: Array) -> Array:
    """Intersection over union of each mask of one set with each of another; masks of shape (n, height, width).

    >>> import numpy as np
    >>> from gyrfalcon.vision import mask_iou
    >>> mask_iou(np.array([[[True, True]]]), np.array([[[True, False]], [[True, True]]])).tolist()
    [[0.5, 1.0]]
    """
    a, b = (np.asarray(masks, dtype=bool) for masks in (first, second))
    a, b = (masks.reshape(len(masks), math.prod(masks.shape[1:])).astype(np.float32) for masks in (a, b))
    inside = (a @ b.T).astype(np.float64)
    union = a.sum(1, dtype=np.float64)[:, None] + b.sum(1, dtype=np.float64)[None] - inside
    return np.asarray(np.divide(inside, union, out=np.zeros_like(inside), where=union > 0))


def non_maximum_suppression(boxes: Array, scores: Array, overlap: float = 0.3) -> Array:
    """Indices of the boxes that stay, best first: a box goes if one that scores higher overlaps it by more.

    Parameters
    ----------
    boxes : array of shape (n, 4)
    scores : array of shape (n,)
    overlap : float
        The largest intersection over union of two boxes that both stay.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.vision import non_maximum_suppression
    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30]])
    >>> non_maximum_suppression(boxes, np.array([0.5, 0.9, 0.1])).tolist()
    [1, 2]
    """
    return suppressed(box_iou(boxes, boxes), scores, overlap)


def suppressed(table: Array, scores: Array, overlap: float) -> Array:
    """The same for anything of which the overlaps are known, as a table of shape (n, n)."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    kept, alive = [], np.ones(len(order), dtype=bool)
    for index in order:
        if alive[index]:
            kept.append(index)
            alive &= table[index] <= overlap
    return np.array(kept, dtype=np.int64)


def decayed(table: Array, scores: Array, overlap: float, least: float) -> tuple[Array, Array]:
    """Indices of what stays, best first, and scores that are smaller the more it overlaps what is better.

    One that stands partly behind another is less likely than one that stands alone, and likelier than none.

    Parameters
    ----------
    table : array of shape (n, n)
        Overlaps of each with each.
    scores : array of shape (n,)
        Above 0.
    overlap : float
        What overlaps something better by more goes.
    least : float
        And so does what has a lower score in the end.
    """
    left, kept, values = np.array(scores, dtype=np.float64), [], []
    while len(left) and (best := left.max()) > 0 and best >= least:
        index = int(left.argmax())
        kept.append(index)
        values.append(best)
        left = np.where(table[index] > overlap, 0.0, left * np.exp(-(table[index] ** 2) / DECAY))
        left[index] = 0.0
    return np.array(kept, dtype=np.int64), np.array(values)


def voted(chosen: Array, boxes: Array, scores: Array, overlap: float) -> Array:
    """Chosen boxes moved to the mean, weighted by the scores, of all boxes that overlap them by at least so much."""
    weights = np.where(box_iou(chosen, boxes) >= overlap, np.maximum(scores, TINY), 0.0)
    return np.asarray(weights @ boxes / weights.sum(1, keepdims=True)) if len(chosen) else chosen


def encode(boxes: Array, targets: Array) -> Array:
    """How to move and stretch boxes so that they become targets: R-CNN's four numbers, of shape (n, 4)."""
    size, aim = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    middle, goal = (boxes[:, :2] + boxes[:, 2:]) / 2, (targets[:, :2] + targets[:, 2:]) / 2
    return np.column_stack([(goal - middle) / size, np.log(aim / size)])


def decode(boxes: Array, codes: Array) -> Array:
    """Boxes moved and stretched as `encode` says."""
    size, middle = boxes[:, 2:] - boxes[:, :2], (boxes[:, :2] + boxes[:, 2:]) / 2
    middle = middle + codes[:, :2] * size
    half = size * np.exp(np.clip(codes[:, 2:], -LARGEST_LOG, LARGEST_LOG)) / 2
    return np.column_stack([middle - half, middle + half])


def clip(boxes: Array, shape: tuple[int, ...]) -> Array:
    """Boxes cut at the edges of an image of shape (height, width)."""
    limits = np.array([shape[1], shape[0], shape[1], shape[0]], dtype=np.float64)
    return np.asarray(np.clip(boxes, 0, limits))


def box_of(mask: Array) -> Array | None:
    """The smallest box around the pixels of a mask, or None if it has none."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if len(rows) == 0:
        return None
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], dtype=np.float64)
