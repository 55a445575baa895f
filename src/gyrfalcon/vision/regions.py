"""Features of regions: means over the parts of a box, and samples on a grid within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from .anchors import CELLS, grid_of
from .features import FeatureMap

Array = np.ndarray[Any, Any]

BINS = 4  # along each side of a box
MASK_SIDE = 28  # samples along each side of a box for its mask
PLACE_WEIGHT = 20.0  # how far apart two opposite edges of a box are in the features of its mask
TAPS = 4  # where sums are looked up for a part, along each side
BOXES_AT_ONCE = 512


def location_features(found: FeatureMap) -> Array:
    """Mean features of locations, of shape (locations, dimensions)."""
    grid = grid_of(found.grid)
    values = found.values[:, : grid[0] * CELLS, : grid[1] * CELLS]
    if min(found.grid) < CELLS:
        values = functional.adaptive_avg_pool2d(found.values[None], grid)[0]
    else:
        values = functional.avg_pool2d(values[None], CELLS)[0]
    return np.ascontiguousarray(values.flatten(1).T.numpy())


def region_features(found: FeatureMap, boxes: Array) -> Array:
    """Means of leading features over 4 × 4 parts of each box, of shape (boxes, 16·leading), in float32.

    Means are differences of sums over all cells above and to the left, so a box of any size costs the same: sixteen
    rows of the table of these sums for each part.
    """
    height, width = found.grid
    values = found.leading
    padded = functional.pad(values.double(), (1, 0, 1, 0))
    table = padded.cumsum(1).cumsum(2).flatten(1).T.contiguous().numpy()
    middle, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    scale = np.array([width / found.shape[1], height / found.shape[0]])
    low = np.clip((middle - half) * scale, 0, [width - 0.5, height - 0.5])
    high = np.maximum(np.clip((middle + half) * scale, 0, [width, height]), low + 0.5)
    steps = np.linspace(0, 1, BINS + 1)
    x, x_weights = _taps(low[:, :1] + steps * (high - low)[:, :1], width)
    y, y_weights = _taps(low[:, 1:] + steps * (high - low)[:, 1:], height)
    features = np.empty((len(boxes), BINS**2 * len(values)), dtype=np.float32)
    for start in range(0, len(boxes), BOXES_AT_ONCE):
        rows = slice(start, start + BOXES_AT_ONCE)
        places = (y[rows, :, None, :, None] * (width + 1) + x[rows, None, :, None, :]).reshape(-1, TAPS**2)
        weights = y_weights[rows, :, None, :, None] * x_weights[rows, None, :, None, :] / BINS
        ends = np.arange(0, places.size + 1, TAPS**2)
        sums = sparse.csr_array((weights.ravel(), places.ravel(), ends), shape=(len(places), len(table)))
        features[rows] = (sums @ table).reshape(-1, features.shape[1])
    return features


def _taps(edges: Array, cells: int) -> tuple[Array, Array]:
    """For the parts between edges where sums are looked up and with which weights, each of shape (boxes, parts, 4).

    Between two cells sums are interpolated. A part is what is before its end less what is before its beginning.
    """
    below = np.minimum(edges.astype(np.int64), cells - 1)
    rest, size = edges - below, np.diff(edges, axis=1)[:, :, None]
    places = np.stack([below[:, 1:], below[:, 1:] + 1, below[:, :-1], below[:, :-1] + 1], axis=-1)
    weights = np.stack([1 - rest[:, 1:], rest[:, 1:], rest[:, :-1] - 1, -rest[:, :-1]], axis=-1)
    return places, weights / size


def grid_points(boxes: Array, margin: float = 1.0) -> tuple[Array, Array]:
    """Abscissas and ordinates in pixels of a grid in boxes larger by a factor, each of shape (boxes, side)."""
    steps = _steps(margin)
    x, y = (boxes[:, k, None] + steps * (boxes[:, k + 2] - boxes[:, k])[:, None] for k in (0, 1))
    return x, y


def mask_features(found: FeatureMap, boxes: Array, margin: float = 1.0, samples: Array | None = None) -> Array:
    """Features on that grid, followed by the place relative to the box, of shape (boxes·samples, dimensions + 2).

    `samples` are those of the grid that are wanted, from 0 to side² - 1; all of them by default.
    """
    x, y = grid_points(boxes, margin)
    chosen = np.arange(MASK_SIDE**2) if samples is None else samples
    row, column = np.divmod(chosen, MASK_SIDE)
    pairs = 2 * x[:, column] / found.shape[1] - 1, 2 * y[:, row] / found.shape[0] - 1
    grid = torch.from_numpy(np.stack(pairs, -1)[None]).float()
    sampled = functional.grid_sample(found.values[None], grid, padding_mode="border", align_corners=False)[0]
    rows = sampled.permute(1, 2, 0).reshape(-1, len(found.values))
    steps = PLACE_WEIGHT * _steps(margin)
    place = torch.from_numpy(np.column_stack([steps[row], steps[column]])).float()
    return np.ascontiguousarray(torch.cat([rows, place.repeat(len(boxes), 1)], 1).numpy())


def _steps(margin: float) -> Array:
    """Where the samples are, as shares of a side from its beginning."""
    return margin * ((np.arange(MASK_SIDE) + 0.5) / MASK_SIDE - 0.5) + 0.5
