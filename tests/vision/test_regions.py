"""Features of boxes: means over their parts and samples on their grids, against plain loops."""

import numpy as np
import torch

from gyrfalcon.vision.features import COLORS, LEADING, FeatureMap
from gyrfalcon.vision.regions import MASK_SIDE, PLACE_WEIGHT, mask_features, region_features

SHAPE, CELLS = (96, 128), (12, 16)


def feature_map():
    return FeatureMap(torch.from_numpy(np.random.default_rng(0).normal(size=(5, *CELLS))).float(), SHAPE)


def overlaps(low, high, cells):
    """How much of each cell lies between two places."""
    edges = np.arange(cells)
    return np.maximum(0, np.minimum(high, edges + 1) - np.maximum(low, edges))


def test_features_of_regions_are_means_over_their_parts():
    random, found = np.random.default_rng(1), feature_map()
    middle, half = random.uniform([20, 20], [108, 76], (600, 2)), random.uniform(2, 20, (600, 2))
    boxes = np.concatenate([middle - half, middle + half], axis=1)
    boxes[0], boxes[1] = (0, 0, 128, 96), (120.5, 88.25, 128, 96)
    features = region_features(found, boxes).reshape(600, 4, 4, 5)
    values = found.values.double().numpy()
    for place in (0, 1, 2, 300, 511, 512, 599):
        left, top, right, bottom = boxes[place] / 8
        for row in range(4):
            y = overlaps(top + row * (bottom - top) / 4, top + (row + 1) * (bottom - top) / 4, CELLS[0])
            for column in range(4):
                x = overlaps(left + column * (right - left) / 4, left + (column + 1) * (right - left) / 4, CELLS[1])
                mean = (values * y[:, None] * x).sum((1, 2)) / (y.sum() * x.sum())
                np.testing.assert_allclose(features[place, row, column], mean / 4, atol=1e-5)


def test_there_may_be_no_regions():
    assert region_features(feature_map(), np.zeros((0, 4))).shape == (0, 80)


def test_regions_are_described_by_leading_features_and_colors():
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(LEADING + COLORS + 9, *CELLS))).float()
    some = torch.cat([values[:LEADING], values[-COLORS:]])
    box = np.array([[11.0, 20.0, 70.0, 90.0]])
    found = region_features(FeatureMap(values, SHAPE), box)
    np.testing.assert_array_equal(found, region_features(FeatureMap(some, SHAPE), box))
    assert found.shape == (1, 16 * (LEADING + COLORS))


def test_some_samples_of_a_box_are_those_of_all():
    found, box = feature_map(), np.array([[11.0, 20.0, 70.0, 90.0]])
    every = mask_features(found, box)
    chosen = np.array([5, 700, 28, 0])
    np.testing.assert_array_equal(mask_features(found, box, 1.0, chosen), every[chosen])
    assert every.shape == (MASK_SIDE**2, 7)
    np.testing.assert_allclose(every[28, -2:], PLACE_WEIGHT * np.array([1.5, 0.5]) / MASK_SIDE, rtol=1e-6)
