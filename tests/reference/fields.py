"""K-planes written plainly, point by point and loop by loop, in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np


def interpolate(plane, a, b):
    """Bilinear interpolation of plane[second, first, feature] at a, b in [0, 1]."""
    rows, columns, _ = plane.shape
    x, y = min(max(a, 0.0), 1.0) * (columns - 1), min(max(b, 0.0), 1.0) * (rows - 1)
    i, j = min(int(x), columns - 2), min(int(y), rows - 2)
    u, v = x - i, y - j
    return (
        (1 - u) * (1 - v) * plane[j, i]
        + u * (1 - v) * plane[j, i + 1]
        + (1 - u) * v * plane[j + 1, i]
        + u * v * plane[j + 1, i + 1]
    )


def features(planes, dim, points, *, product=True):
    """(8.2) and (8.3): `planes` is a list of scales, each a list of planes of all pairs of axes."""
    found = []
    for point in points:
        scales = []
        for scale in planes:
            values = [
                interpolate(plane, point[a], point[b])
                for plane, (a, b) in zip(scale, itertools.combinations(range(dim), 2), strict=True)
            ]
            scales.append(np.prod(values, axis=0) if product else np.sum(values, axis=0))
        found.append(np.concatenate(scales))
    return np.array(found)


def render(densities, colors, lengths, distances, background):
    """(8.1) with its background: color, depth, opacity and the weights of one ray."""
    seen, color, depth, weights = 1.0, np.zeros(3), 0.0, []
    for density, c, length, distance in zip(densities, colors, lengths, distances, strict=True):
        weight = seen * (1 - math.exp(-density * length))
        weights.append(weight)
        color = color + weight * c
        depth += weight * distance
        seen *= math.exp(-density * length)
    return color + seen * background, depth, 1 - seen, np.array(weights)


def total_variation(planes, times):
    """(8.4): `times` says of each plane whether its second axis is the time, along which it does not count."""
    total = 0.0
    for plane, timed in zip(planes, times, strict=True):
        rows, columns, _ = plane.shape
        own = 0.0
        for j in range(rows):
            for i in range(columns):
                if i > 0:
                    own += ((plane[j, i] - plane[j, i - 1]) ** 2).sum()
                if j > 0 and not timed:
                    own += ((plane[j, i] - plane[j - 1, i]) ** 2).sum()
        total += own / (rows * columns)
    return total / len(planes)


def time_smoothness(planes):
    """(8.5) over planes whose second axis is the time."""
    total = 0.0
    for plane in planes:
        rows, columns, _ = plane.shape
        own = 0.0
        for i in range(columns):
            for t in range(1, rows - 1):
                own += ((plane[t - 1, i] - 2 * plane[t, i] + plane[t + 1, i]) ** 2).sum()
        total += own / (rows * columns)
    return total / len(planes)


def transients(planes):
    """(8.6) over planes of time."""
    total = 0.0
    for plane in planes:
        for value in plane.ravel():
            total += abs(1 - value)
    return total


def distortion(weights, middles, lengths):
    """The distortion loss of one ray as a double sum."""
    total = 0.0
    for w, m in zip(weights, middles, strict=True):
        for v, n in zip(weights, middles, strict=True):
            total += w * v * abs(m - n)
    return total + sum(w * w * length for w, length in zip(weights, lengths, strict=True)) / 3


def histogram_loss(edges, weights, wide_edges, wide_weights):
    """The excess of an interval's weight over those of the proposal's intervals that it meets, squared, over it."""
    total = 0.0
    for low, high, w in zip(edges[:-1], edges[1:], weights, strict=True):
        bound = sum(
            v for a, b, v in zip(wide_edges[:-1], wide_edges[1:], wide_weights, strict=True) if a < high and b > low
        )
        total += max(0.0, w - bound) ** 2 / (w + 1e-7)
    return total
