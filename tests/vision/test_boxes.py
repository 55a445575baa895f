"""Boxes, suppression and average precision, against counting pixels and against pycocotools."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon import vision
from gyrfalcon.vision import boxes
from reference import vision as plain

corner = st.integers(0, 12)
box = st.tuples(corner, corner, st.integers(1, 8), st.integers(1, 8)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
some = st.lists(box, min_size=1, max_size=8)


@given(some, some)
def test_overlaps_count_pixels(first, second):
    expected = [[plain.iou_of_boxes(a, b) for b in second] for a in first]
    np.testing.assert_allclose(vision.box_iou(np.array(first), np.array(second)), expected, atol=1e-15)
    masks = [np.zeros((len(group), 20, 20), dtype=bool) for group in (first, second)]
    for group, drawn in zip((first, second), masks, strict=True):
        for number, (left, top, right, bottom) in enumerate(group):
            drawn[number, top:bottom, left:right] = True
    np.testing.assert_allclose(vision.mask_iou(*masks), expected, atol=1e-15)


@given(some, st.sampled_from([0.0, 0.3, 0.7]), st.randoms())
def test_suppression_is_greedy(given_boxes, overlap, source):
    scores = np.array([source.random() for _ in given_boxes])
    kept = vision.non_maximum_suppression(np.array(given_boxes), scores, overlap)
    assert kept.tolist() == plain.suppressed(given_boxes, scores, overlap)


@given(some, st.sampled_from([0.3, 0.7]), st.sampled_from([0.0, 0.2, 0.5]), st.randoms())
def test_scores_decay_by_every_better_one(given_boxes, overlap, least, source):
    scores = [source.uniform(0.01, 1) for _ in given_boxes]
    table = np.array([[plain.iou_of_boxes(a, b) for b in given_boxes] for a in given_boxes])
    kept, values = boxes.decayed(table, np.array(scores), overlap, least)
    expected = plain.decayed(given_boxes, scores, overlap, least, boxes.DECAY)
    assert kept.tolist() == [index for index, _ in expected]
    np.testing.assert_allclose(values, [score for _, score in expected], rtol=1e-12)


def test_what_stands_alone_keeps_its_score():
    kept, values = boxes.decayed(np.eye(3), np.array([0.2, 0.9, 0.5]), 0.6, 0.3)
    assert kept.tolist() == [1, 2]
    assert values.tolist() == [0.9, 0.5]


@given(some, some, st.sampled_from([0.3, 0.6]), st.randoms())
def test_votes_are_weighted_means_of_boxes_that_agree(chosen, others, overlap, source):
    scores = np.array([source.uniform(0.1, 1) for _ in chosen + others])
    everything = chosen + others  # a box that was chosen is one of those that vote
    expected = []
    for one in chosen:
        near = [k for k, other in enumerate(everything) if plain.iou_of_boxes(one, other) >= overlap]
        total = sum(scores[k] for k in near)
        expected.append([sum(scores[k] * everything[k][side] for k in near) / total for side in range(4)])
    found = boxes.voted(np.array(chosen, float), np.array(everything, float), scores, overlap)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_box_is_moved_where_none_was_chosen():
    assert boxes.voted(np.zeros((0, 4)), np.zeros((0, 4)), np.zeros(0), 0.6).shape == (0, 4)


@given(some, some)
def test_codes_lead_to_targets(first, second):
    count = min(len(first), len(second))
    start, goal = np.array(first[:count], float), np.array(second[:count], float)
    np.testing.assert_allclose(boxes.decode(start, boxes.encode(start, goal)), goal, atol=1e-12)


def scenes(seed, frames=6):
    """Truth and guesses of two classes, with misses, doubles, near misses and equal boxes."""
    random = np.random.default_rng(seed)
    truth, found = [], []
    for _ in range(frames):
        shown, guesses = {"mug": [], "glass": []}, []
        for label in random.choice(["mug", "glass"], random.integers(0, 5)):
            low = random.integers(0, 40, 2)
            high = low + random.integers(6, 24, 2)
            mask = np.zeros((64, 64), dtype=bool)
            mask[low[1] : high[1], low[0] : high[0]] = True
            shown[label].append(mask)
            for _ in range(random.integers(0, 3)):
                moved = np.roll(mask, random.integers(-4, 5, 2), axis=(0, 1))
                named = label if random.random() < 0.9 else "mug"
                guesses.append(vision.Found(named, float(random.random()), boxes.box_of(moved), moved))
        truth.append({label: masks for label, masks in shown.items() if masks})
        found.append(guesses)
    return found, truth


def coco_precision(found, truth, kind, overlap):
    """What pycocotools says, of each class."""
    from pycocotools import mask as encoder
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    labels = sorted({label for frame in truth for label in frame})
    known, guessed = [], []

    def described(mask, number, label):
        packed = encoder.encode(np.asfortranarray(mask.astype(np.uint8)))
        left, top, right, bottom = boxes.box_of(mask)
        described = {"image_id": number, "category_id": labels.index(label) + 1, "segmentation": packed}
        return described | {"bbox": [left, top, right - left, bottom - top], "area": float(mask.sum()), "iscrowd": 0}

    for number, frame in enumerate(truth):
        known += [described(mask, number, label) for label, masks in frame.items() for mask in masks]
    for number, frame in enumerate(found):
        guessed += [described(f.mask, number, f.label) | {"score": f.score} for f in frame if f.label in labels]
    with contextlib.redirect_stdout(io.StringIO()):
        data = COCO()
        data.dataset = {
            "images": [{"id": number, "height": 64, "width": 64} for number in range(len(truth))],
            "annotations": [{**one, "id": place + 1} for place, one in enumerate(known)],
            "categories": [{"id": place + 1, "name": label} for place, label in enumerate(labels)],
        }
        data.createIndex()
        judge = COCOeval(data, data.loadRes(guessed), "segm" if kind == "masks" else "bbox")
        judge.params.iouThrs = np.array([overlap])
        judge.evaluate()
        judge.accumulate()
    return dict(zip(labels, judge.eval["precision"][0, :, :, 0, -1].mean(0), strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["masks", "boxes"])
@pytest.mark.parametrize("overlap", [0.5, 0.7])
@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_pycocotools(seed, overlap, kind):
    pytest.importorskip("pycocotools")
    found, truth = scenes(seed, 12)
    ours = vision.average_precision(found, truth, overlap=overlap, of=kind, method="coco")
    theirs = coco_precision(found, truth, kind, overlap)
    assert ours.by_class == pytest.approx(theirs, abs=1e-12)
    exact = vision.average_precision(found, truth, overlap=overlap, of=kind)
    assert exact.mean == pytest.approx(np.mean(list(theirs.values())), abs=0.05)  # areas, not 101 points
    assert 0 < exact.mean < 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_average_precision_has_its_extremes(seed):
    _, truth = scenes(seed)
    perfect = [
        [vision.Found(label, 0.5, boxes.box_of(mask), mask) for label, masks in frame.items() for mask in masks]
        for frame in truth
    ]
    if any(truth):
        # Two instances that cover each other may each take the other's place; a perfect guess overlaps one by 1.
        assert vision.average_precision(perfect, truth, overlap=1.0, method="coco").mean == pytest.approx(1.0)
        assert vision.average_precision([[] for _ in truth], truth).mean == 0.0


def test_refusals():
    mask = np.ones((8, 8), dtype=bool)
    guess = [vision.Found("mug", 1.0, np.array([0, 0, 8, 8]), mask)]
    for change, words in (
        ({"overlap": 0.0}, "overlap"),
        ({"of": "pixels"}, "of must be"),
        ({"method": "mine"}, "method"),
    ):
        with pytest.raises(ValueError, match=words):
            vision.average_precision([guess], [{"mug": mask}], **change)
    with pytest.raises(ValueError, match="as many frames"):
        vision.average_precision([guess], [])
    with pytest.raises(ValueError, match="boxes only"):
        vision.average_precision([guess], [{"mug": np.array([0, 0, 4, 4])}])
    assert vision.average_precision([guess], [{"mug": np.array([0, 0, 8, 8])}], of="boxes").mean == 1.0
