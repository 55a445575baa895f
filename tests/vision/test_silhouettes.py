"""Silhouettes of objects in boxes: shares of parts, against plain loops, and what masks make of them."""

import numpy as np
import torch

from gyrfalcon.vision.features import FeatureMap
from gyrfalcon.vision.masks import MOST_SURE, predict_masks
from gyrfalcon.vision.silhouettes import INSIDE, SIDE, silhouettes


def disk(shape=(96, 128), middle=(70, 50), radius=30):
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    return np.hypot(x - middle[0], y - middle[1]) < radius


def test_silhouettes_are_shares_of_parts():
    mask = disk()
    boxes = np.array([[40.0, 20.0, 100.0, 80.0], [0.0, 0.0, 128.0, 96.0], [61.4, 33.7, 103.9, 90.2]])
    found = silhouettes(mask, boxes).reshape(3, SIDE, SIDE)
    for box, shares in zip(boxes, found, strict=True):
        x, y = (np.rint(np.linspace(box[k], box[k + 2], SIDE + 1)).astype(int) for k in (0, 1))
        for row in range(SIDE):
            for column in range(SIDE):
                part = mask[y[row] : y[row + 1], x[column] : x[column + 1]]
                assert shares[row, column] == np.rint(INSIDE * (2 * part.mean() - 1))


def test_parts_smaller_than_a_pixel_are_that_pixel():
    mask = np.zeros((20, 20), dtype=bool)
    mask[:, 10:] = True
    found = silhouettes(mask, np.array([[8.0, 8.0, 12.0, 12.0], [18.5, 18.5, 20.0, 20.0]])).reshape(2, SIDE, SIDE)
    assert set(np.unique(found[0])) == {-INSIDE, INSIDE}
    assert (np.diff(found[0].astype(int), axis=1) >= 0).all()
    assert (found[1] == INSIDE).all()


def test_of_a_box_alone_there_is_no_silhouette():
    assert (silhouettes(None, np.array([[0.0, 0.0, 9.0, 9.0]])) == 0).all()


def test_silhouettes_decide_where_samples_do_not():
    found, box = FeatureMap(torch.zeros(5, 12, 16), (96, 128)), np.array([[40.0, 20.0, 100.0, 80.0]])
    shapes = silhouettes(disk(), box).reshape(1, SIDE, SIDE) / INSIDE
    masks, sure = predict_masks(lambda X: np.zeros((len(X), 1)), found, box, shapes)
    inside, both = (masks[0] & disk()).sum(), (masks[0] | disk()).sum()
    assert inside > 0.95 * both
    assert 0 < sure[0] < 0.5
    full, certain = predict_masks(lambda X: np.full((len(X), 1), 9.0), found, box, shapes)
    assert full.sum() == 3600  # samples that are sure are not moved by it
    assert certain[0] > sure[0]
    whole, surest = predict_masks(None, found, box, shapes)
    assert np.array_equal(whole, full)
    assert surest[0] == 1.0
    assert MOST_SURE > 1
