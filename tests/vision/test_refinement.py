"""Masks refined by a decoder: it offers outlines, and what was found decides which of them is meant."""

import numpy as np
import pytest
import torch

from gyrfalcon import vision
from gyrfalcon.vision.extractors import EncodedMaps, sam_decoder
from gyrfalcon.vision.features import FeatureMap
from gyrfalcon.vision.refinement import refined_masks
from reference.vision import colors, picture

SHAPE = (48, 64)


def drawn(left, top, right, bottom, shape=SHAPE):
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


class Offering:
    """A decoder that offers four fixed masks for every box, and remembers the boxes."""

    def __init__(self, *masks):
        self.masks, self.boxes = masks, []

    def __call__(self, embedding, boxes):
        self.boxes += boxes.tolist()
        logits = torch.from_numpy(np.stack(self.masks)).float() * 2 - 1
        return logits.expand(len(boxes), -1, -1, -1), torch.ones(len(boxes), 4)


def test_the_offer_most_like_what_was_found_is_taken():
    whole, right, half = drawn(0, 0, 64, 48), drawn(10, 8, 30, 40), drawn(10, 8, 30, 20)
    decoder = Offering(whole, half, right, ~whole)
    found = FeatureMap(torch.zeros(3, 6, 8), SHAPE, torch.zeros(256, 3, 4))
    boxes = np.array([[12.0, 10.0, 32.0, 42.0]] * 11)
    near, nowhere = drawn(12, 10, 32, 42), drawn(50, 40, 64, 48)
    pairs = refined_masks(decoder, found, boxes, [near] * 10 + [nowhere])
    for box, mask in pairs[:10]:
        np.testing.assert_array_equal(mask, right)
        np.testing.assert_array_equal(box, [10, 8, 30, 40])
    np.testing.assert_array_equal(pairs[10][1], nowhere)
    np.testing.assert_array_equal(pairs[10][0], boxes[10])
    np.testing.assert_allclose(decoder.boxes, boxes / 16)  # in cells of the map


def encoded(image):
    return EncodedMaps(
        {stride: torch.as_tensor(maps) for stride, maps in colors(image).items()}, torch.zeros(256, 6, 8)
    )


def test_predict_refines_what_it_finds(monkeypatch):
    image, masks = picture(100)
    outline = masks["red"]
    decoder = Offering(*[outline] * 4)
    monkeypatch.setattr("gyrfalcon.vision.segmenter.sam_decoder", lambda: decoder)
    settings = {"n_centers": (120, 120, 60), "n_batches": 2, "length_scales": (4.0, 4.0, 8.0)}
    model = vision.InstanceSegmenter(encoded, **settings)
    for seed in range(4):
        model.observe(*picture(seed))
    plainly = model.train().predict(image)
    best = model.set_params(refine="sam").predict(image)[0]
    np.testing.assert_array_equal(best.mask, outline)
    np.testing.assert_array_equal(best.box, vision.boxes.box_of(outline))
    assert best.score == plainly[0].score
    model.observe(*picture(5))  # it may be changed at any time
    model.net = model._features.net = colors
    model._fix_parameters()
    with pytest.raises(ValueError, match="needs the network 'tiny-vit'"):
        model.predict(image)
    with pytest.raises(ValueError, match="refine must be None or 'sam', got 'crf'"):
        model.set_params(refine="crf").predict(image)
    with pytest.raises(ValueError, match="refine must be None or 'sam'"):
        vision.InstanceSegmenter(encoded, refine=3).observe(image, masks)


@pytest.mark.skipif(not vision.available("tiny-vit"), reason="the weights are not in the cache")
def test_the_decoder_finds_what_is_in_a_box():
    """A striped disk in front of a texture, of which the box is off by a few pixels."""
    image = vision.scene(np.random.default_rng(3), (192, 256), shapes=0)
    rows, columns = np.mgrid[:192, :256]
    disk = (rows - 90) ** 2 + (columns - 120) ** 2 < 45**2
    image[disk] = np.where((columns[disk] // 6 % 2)[:, None], (230, 60, 40), (250, 220, 60))
    net = vision.extractor("tiny-vit", size=256)
    maps = net(image)
    found = FeatureMap(maps[16], (192, 256), maps.embedding)
    box = np.array([[72.0, 47.0, 168.0, 138.0]])
    _, mask = refined_masks(sam_decoder(), found, box, [drawn(72, 47, 168, 138, (192, 256))])[0]
    assert vision.mask_iou(mask[None], disk[None])[0, 0] > 0.9
