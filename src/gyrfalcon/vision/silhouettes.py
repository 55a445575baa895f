"""Silhouettes: how much of each part of a box is inside of an object, which tells its shape from the box as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SIDE = 14  # parts along each side of a box
INSIDE = 100  # what is kept of a part that is all inside of the object; minus this of one that is all outside


def silhouettes(mask: Array | None, boxes: Array) -> Array:
    """Of boxes within an image, of shape (boxes, SIDE²), in int8; 0 everywhere if the mask is not known."""
    if mask is None:
        return np.zeros((len(boxes), SIDE**2), dtype=np.int8)
    steps = np.arange(SIDE + 1) / SIDE
    x, y = (np.rint(boxes[:, k, None] + steps * (boxes[:, k + 2] - boxes[:, k])[:, None]).astype(int) for k in (0, 1))
    left, top = np.minimum(x[:, :-1], mask.shape[1] - 1), np.minimum(y[:, :-1], mask.shape[0] - 1)
    right, bottom = np.maximum(x[:, 1:], left + 1), np.maximum(y[:, 1:], top + 1)  # a part has a pixel at least
    sums = np.pad(mask.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    lower, upper = (
        sums[rows[:, :, None], right[:, None]] - sums[rows[:, :, None], left[:, None]] for rows in (bottom, top)
    )
    share = (lower - upper) / ((bottom - top)[:, :, None] * (right - left)[:, None])
    shapes: Array = np.rint(INSIDE * (2 * share - 1)).astype(np.int8)
    return shapes.reshape(len(boxes), SIDE**2)
