"""Instances: found again, whatever the order in which they were taught, added one by one, and forgotten."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import gyrfalcon as gf
from gyrfalcon import vision
from gyrfalcon.vision import finding
from gyrfalcon.vision.annotations import read_instances
from gyrfalcon.vision.frames import Quota, share
from gyrfalcon.vision.masks import mask_rows
from gyrfalcon.vision.minibootstrap import Settings, Whitened, minibootstrap
from gyrfalcon.vision.regions import PLACE_WEIGHT, region_features
from gyrfalcon.vision.segmenter import MOST_FRAMES
from gyrfalcon.vision.silhouettes import SIDE
from reference import dense, ridge
from reference import vision as plain
from reference.vision import colors, picture

SETTINGS = {"n_centers": (120, 120, 60), "n_batches": 2, "length_scales": (4.0, 4.0, 8.0)}


def teacher(**changes):
    return vision.InstanceSegmenter(colors, **SETTINGS | changes)


def rounded(seed, labels=("red",)):
    """A picture whose objects are the ellipses in its rectangles, so that masks have something to learn."""
    image, masks = picture(seed, labels)
    for label, mask in masks.items():
        left, top, right, bottom = vision.boxes.box_of(mask)
        y, x = np.mgrid[: mask.shape[0], : mask.shape[1]] + 0.5
        outside = np.hypot((2 * x - left - right) / (right - left), (2 * y - top - bottom) / (bottom - top)) > 1
        image[mask & outside] = 110
        masks[label] = mask & ~outside
    return image, masks


def shown(label, count=4, first=0):
    return [rounded(first + seed, (label,)) for seed in range(count)]


def taught(*labels, between=False, **changes):
    model = teacher(**changes)
    for label in labels:
        for image, masks in shown(label):
            model.observe(image, masks)
        if between:
            model.train()
    return model.train()


def numbers(model):
    """All coefficients of a trained model, by module and class."""
    made = model._model
    found = {"proposals": made.proposer.function.coefficients}
    found |= {"centers of detectors": made.detectors.function.centers}
    for place, label in enumerate(made.detectors.labels):
        found[f"detector of {label}"] = made.detectors.function.coefficients[:, 5 * place : 5 * place + 5]
        own = slice(place * SIDE**2, (place + 1) * SIDE**2)
        found[f"silhouettes of {label}"] = made.detectors.shapes.coefficients[:, own]
    return found | {f"masks of {label}": masks.coefficients for label, masks in made.masks.items()}


def assert_same(first, second):
    first, second = numbers(first), numbers(second)
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), name


def best(found, label, mask):
    return max((vision.mask_iou(one.mask[None], mask[None])[0, 0] for one in found if one.label == label), default=0.0)


@pytest.mark.parametrize("protocol", ["parallel", "serial"])
def test_finds_what_was_shown(protocol):
    model = taught("red", "blue", protocol=protocol)
    found, truth = [], []
    for seed in range(100, 106):
        image, masks = picture(seed, ("red", "blue"))
        found.append(model.predict(image))
        truth.append(masks)
    for frame, masks in zip(found, truth, strict=True):
        assert best(frame, "red", masks["red"]) > 0.5
        assert best(frame, "blue", masks["blue"]) > 0.5
        assert all(one.mask.shape == (96, 128) and one.mask.dtype == bool and 0.4 <= one.score <= 1 for one in frame)
        assert [one.score for one in frame] == sorted((one.score for one in frame), reverse=True)
    assert vision.average_precision(found, truth, overlap=0.5).mean > 0.9
    assert vision.average_precision(found, truth, overlap=0.5, of="boxes").mean > 0.9


@pytest.mark.parametrize("order", [("red", "green", "blue"), ("blue", "red", "green"), ("green", "blue", "red")])
def test_classes_in_any_order_and_all_at_once_give_the_same_bits(order):
    assert_same(taught("red", "blue", "green"), taught(*order, between=True))


def test_quotas_that_cut_do_not_change_that(monkeypatch):
    """With room for 60 negatives only, so that later frames drop candidates of earlier ones."""
    monkeypatch.setattr("gyrfalcon.vision.segmenter.BATCH_SIZE", 30)
    model = taught("red", "blue", "green")
    assert_same(model, taught("green", "red", "blue", between=True))
    assert all(len(frame.regions.keys) < 100 for frame in model._frames.values())


def test_frames_in_any_order_give_the_same_bits(monkeypatch):
    """Sorted by class, mixed or backwards, trained in between or not, with pools that later frames cut."""
    monkeypatch.setattr("gyrfalcon.vision.segmenter.BATCH_SIZE", 100)
    frames = [pair for label in ("red", "blue") for pair in shown(label, count=12)]
    orders = np.arange(24), np.random.default_rng(0).permutation(24), np.arange(24)[::-1]
    models = [teacher(), teacher(), teacher()]
    for model, order in zip(models, orders, strict=True):
        for count, place in enumerate(order):
            model.observe(*frames[place])
            if model is models[1] and count in (7, 15):
                model.train()
    assert_same(models[0].train(), models[1].train())
    assert_same(models[0], models[2].train())
    kept = [len(frame.masks["red"].keys) for frame in models[0]._frames.values() if "red" in frame.masks]
    assert kept == [67] * 12  # of 400 samples, as many as each of six frames would give


def test_what_is_kept_is_cut_rarely():
    """So that a frame costs the same however many came before: fewer than four cuts while frames double."""
    quotas = [Quota.kept(10_000, frames) for frames in range(1, 2001)]
    assert sum(a != b for a, b in pairwise(quotas)) <= 4 * 9
    assert all(
        kept.negatives >= Quota.learned(10_000, (frames + 1) // 2).negatives for frames, kept in enumerate(quotas, 1)
    )
    assert all(
        kept.negatives <= 1.34 * Quota.learned(10_000, (frames + 1) // 2).negatives + 1
        for frames, kept in enumerate(quotas, 1)
    )


def test_masks_are_dense_nystrom_on_the_samples_of_all_frames():
    """In float64, up to the rounding of float32 entries, for centers that are not nearly the same."""
    model = taught("red", length_scales=(4.0, 4.0, 1.5), penalties=(1e-4, 1e-4, 1e-3))
    rows = [frame.masks["red"] for frame in sorted(model._frames.values(), key=lambda frame: frame.digest)]
    X = np.concatenate([one.X for one in rows]).astype(np.float64)
    targets = np.where(np.concatenate([one.inside for one in rows]), 1.0, -1.0)[:, None]
    masks, kernel = model._model.masks["red"], gf.kernels.Gaussian(1.5)
    centers = masks.centers.astype(np.float64)
    assert len(X) == 4 * 28 * 28
    assert np.abs(masks.coefficients).max() > 0.01
    K = dense(kernel, X, centers)
    expected, offset = ridge.nystrom(K, dense(kernel, centers, centers), targets, 1e-3, intercept=True)
    np.testing.assert_allclose(K @ masks.coefficients + masks.intercept, K @ expected + offset, rtol=0, atol=2e-3)


@pytest.mark.parametrize("protocol", ["parallel", "serial"])
def test_silhouettes_are_those_of_the_objects(protocol):
    """The corners of a box around an ellipse are outside, and its middle is inside."""
    model = taught("red", protocol=protocol)
    image, masks = rounded(100)
    found = model._features(image)
    X = region_features(found, vision.boxes.box_of(masks["red"])[None])
    shape = model._model.detectors.silhouettes("red", X)[0]
    assert shape.shape == (SIDE, SIDE)
    assert shape[[0, 0, -1, -1], [0, -1, 0, -1]].max() < -0.5
    assert shape[SIDE // 2 - 1 : SIDE // 2 + 1, SIDE // 2 - 1 : SIDE // 2 + 1].min() > 0.5


def test_masks_are_trained_anew_only_where_something_changed():
    model = taught("red", "blue")
    before = model._model.masks
    last = model.observe(*rounded(50, ("blue",)))
    after = model.train()._model.masks
    assert after["red"] is before["red"]
    assert not np.array_equal(after["blue"].coefficients, before["blue"].coefficients)
    model.forget(last)
    assert_same(model.train(), taught("red", "blue"))


def test_samples_beside_outlines_are_taken_more_often():
    image = picture(0)[0]
    y, x = np.mgrid[:96, :128] + 0.5
    instances = read_instances({"red": np.hypot((x - 64) / 60, (y - 48) / 44) < 1}, (96, 128))
    model = teacher()
    model._ready()
    found = model._features(image)
    every, some = (mask_rows(found, instances, None, 0, 1, most) for most in (784, 200))

    def share_beside(rows):
        radius = np.hypot(*(2 * rows.X[:, -2:].astype(float).T / PLACE_WEIGHT - 1))
        return (np.abs(radius - 1) < 1 / 28).mean()

    assert len(every.keys) == 784
    assert len(some.keys) == 200
    assert share_beside(some) > 1.7 * share_beside(every)


def test_another_class_leaves_the_masks_of_the_first_as_they_are():
    model = taught("red")
    before = model._model.masks["red"]
    for image, masks in shown("blue"):
        model.observe(image, masks)
    after = model.train()._model.masks["red"]
    assert np.array_equal(before.coefficients, after.coefficients)
    assert np.array_equal(before.intercept, after.intercept)
    assert np.array_equal(before.centers, after.centers)


def test_an_unknown_object_is_no_longer_taken_for_a_known_one_once_it_was_taught():
    """Orange frames are all alike for a model that knows red only; at least 80 % of its mistakes go."""

    def orange(seed):
        image, masks = picture(seed, ("red",))
        image[masks["red"], 1] = np.minimum(image[masks["red"], 1].astype(int) + 45, 255)
        return image, {"orange": masks["red"]}

    model = taught("red")

    def mistakes():
        tried = [orange(seed) for seed in range(200, 212)]
        return sum(best(model.predict(image), "red", masks["orange"]) > 0.3 for image, masks in tried)

    before = mistakes()
    for seed in range(4):
        model.observe(*orange(seed))
    model.train()
    assert before >= 6
    assert mistakes() <= 0.2 * before
    image, masks = picture(300, ("red",))
    assert best(model.predict(image), "red", masks["red"]) > 0.5


def test_forgetting_is_never_having_seen():
    model, clean = teacher(), teacher()
    for place, (image, masks) in enumerate([*shown("red"), *shown("blue")]):
        model.observe(image, masks)
        clean.observe(image, masks)
        if place == 5:
            wrong = model.observe(image, {"red": ~masks["blue"]})
    assert model.train().classes_ == ["red", "blue"]
    with pytest.raises(AssertionError):
        assert_same(model, clean.train())
    model.forget(wrong)
    assert_same(model.train(), clean)
    with pytest.raises(KeyError, match="not one of the frames"):
        model.forget(wrong)


def test_a_frame_shown_twice_counts_twice_and_one_without_objects_teaches_background():
    image, masks = picture(0)
    model = teacher()
    assert [model.observe(image, masks), model.observe(image, masks)] == [0, 1]
    empty = np.clip(np.random.default_rng(0).normal(110, 12, (96, 128, 3)), 0, 255).astype(np.uint8)
    model.observe(empty, {})
    assert model.train().predict(empty) == []
    assert len({frame.digest for frame in model._frames.values()}) == 3


def test_boxes_alone_are_enough_to_find():
    model = teacher()
    for image, masks in shown("red"):
        left, top, right, bottom = vision.boxes.box_of(masks["red"])
        model.observe(image, {"red": (left, top, right, bottom)})
    image, masks = picture(100)
    found = model.train().predict(image)
    assert vision.box_iou(found[0].box[None], vision.boxes.box_of(masks["red"])[None])[0, 0] > 0.5
    assert best(found, "red", masks["red"]) > 0.5


def test_what_is_ignored_is_no_background(monkeypatch):
    """Neither regions nor locations in the ignored part of a frame are negatives."""
    monkeypatch.setattr("gyrfalcon.vision.frames.region_features", lambda found, boxes: boxes)  # to look at them
    image, masks = picture(0, ("red", "blue"))
    plainly, hiding = teacher(), teacher()
    plainly.observe(image, {"red": masks["red"]})
    hiding.observe(image, {"red": masks["red"]}, ignore=masks["blue"])
    hidden = vision.boxes.box_of(masks["blue"])
    regions = [model._frames[0].regions for model in (plainly, hiding)]

    def inside(box):
        low, high = np.maximum(box[:2], hidden[:2]), np.minimum(box[2:], hidden[2:])
        return np.prod(np.maximum(high - low, 0)) / np.prod(box[2:] - box[:2])

    shares = [[inside(box) for box in rows.X.astype(float)] for rows in regions]
    assert max(shares[0]) > 0.9
    assert max(shares[1]) < 0.6  # half, to the pixel
    locations = [model._frames[0].locations for model in (plainly, hiding)]
    negatives = [sum(len(rows.negative(kind, 0.3)) for kind in range(15)) for rows in locations]
    assert negatives[1] < negatives[0]
    kept = [rows.positive(kind, 0.6).tolist() for rows in locations for kind in range(15)]
    assert kept[:15] == kept[15:]


def test_without_any_background_nothing_is_claimed():
    """A frame that is ignored but for its object shows no background: not all the world is that object."""
    image, masks = picture(0)
    model = teacher()
    model.observe(image, masks, ignore=np.ones_like(masks["red"]))
    with pytest.raises(NotFittedError, match="background"):
        model.train()
    model.observe(*picture(1))
    assert model.train().predict(np.full_like(image, 110)) == []


def test_parameters_are_fixed_by_the_first_frame():
    model = taught("red")
    model.set_params(penalties=(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="penalties was"):
        model.train()
    with pytest.raises(ValueError, match="penalties was"):
        model.observe(*picture(0))
    model.set_params(penalties=teacher().penalties)
    model.train()


def test_pools_are_full_after_five_frames():
    """So that what `train` does no longer grows: rows, centers and batches are as many after 30 frames."""
    sizes = {}
    model = teacher(n_batches=2)
    for seed in range(30):
        model.observe(*picture(seed))
        if seed + 1 in (5, 30):
            frames = list(model._frames.values())
            quota = Quota.learned(4000, len(frames))
            rows = [frame.regions.negative(0, 0.3) for frame in frames]
            sizes[seed + 1] = sum(min(len(own), quota.negatives) for own in rows)
            samples = sum(min(len(frame.masks["red"].keys), share(8000, len(frames))) for frame in frames)
            assert samples == {5: 5 * 784, 30: 30 * 267}[seed + 1]
            assert sum(min(len(frame.regions.positive(0, 0.6)), quota.positives) for frame in frames) <= 2010
    assert sizes[5] == 4000
    assert sizes[30] == 30 * 134


def test_the_minibootstrap_is_algorithm_1():
    """Against least squares that is solved anew for every set of rows."""
    random = np.random.default_rng(0)
    settings = Settings(40, 1.5, 1e-3, batch_size=50, n_batches=5)
    positives = random.normal(size=(30, 3)) + np.array([3.0, 0, 0])
    negatives = random.normal(size=(230, 3))
    X = np.concatenate([positives, negatives])
    centers = np.r_[0:20, 30:50]
    space = Whitened(settings, X, centers)
    solution = minibootstrap(space, np.arange(30), np.arange(30, 260), settings)
    kernel = gf.kernels.Gaussian(1.5)
    gram = kernel(X[centers])

    def train(rows, targets):
        K = kernel(rows, X[centers])
        Q, mean, goal = K - K.mean(0), K.mean(0), targets.mean()
        system = Q.T @ Q / len(rows) + settings.penalty * gram
        own = np.linalg.lstsq(system, Q.T @ (targets - goal) / len(rows), rcond=1e-15)[0]
        return lambda points: kernel(points, X[centers]) @ own + goal - mean @ own

    expected = plain.minibootstrap(positives, negatives, 50, train, least=30)
    found = kernel(X, X[centers]) @ solution.beta[:, 0] + solution.offset[0]
    np.testing.assert_allclose(found, expected(X), atol=1e-6)
    assert (found[:30] > 0).mean() > 0.7
    assert (found[30:] < 0).mean() > 0.8


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("gyrfalcon.vision.segmenter.MOST_FRAMES", 12)
    monkeypatch.setattr("gyrfalcon.vision.segmenter.BATCH_SIZE", 60)
    forward, backward = teacher(), teacher()
    frames = [picture(seed) for seed in range(40)]
    for model, order in ((forward, frames), (backward, frames[::-1])):
        for image, masks in order:
            model.observe(image, masks)
    for model in (forward, backward):
        assert len(model._frames) == 12
        assert sum(len(frame.regions.keys) for frame in model._frames.values()) < 12 * 60
        assert len(model._digests) <= 2 * 12
        assert model._ranks.keys() <= model._frames.keys()
    kept = [{frame.digest for frame in model._frames.values()} for model in (forward, backward)]
    assert kept[0] == kept[1]
    assert MOST_FRAMES == 2000


def test_a_file_goes_on_where_it_was(tmp_path):
    model = taught("red", "blue")
    full, small = tmp_path / "full.safetensors", tmp_path / "small.safetensors"
    model.save(full)
    model.save(small, teachable=False)
    assert small.stat().st_size < full.stat().st_size
    image, masks = picture(100, ("red", "blue"))
    expected = model.predict(image)
    for path in (full, small):
        found = vision.InstanceSegmenter.load(path, net=colors).predict(image)
        assert [(one.label, one.score) for one in found] == [(one.label, one.score) for one in expected]
        assert all(np.array_equal(a.mask, b.mask) for a, b in zip(found, expected, strict=True))
    again = vision.InstanceSegmenter.load(full, net=colors)
    for each in (model, again):
        each.forget(1)
        each.observe(image, masks)
        each.train()
    assert_same(model, again)
    with pytest.raises(ValueError, match="net=<callable>"):
        gf.load(full).predict(image)
    with pytest.raises(gf.persistence.ModelFileError, match="holds a InstanceSegmenter"):
        vision.PixelClassifier.load(full)


def test_a_serial_teacher_goes_on_after_a_file(tmp_path):
    model = taught("red", protocol="serial")
    model.save(tmp_path / "model.safetensors")
    again = vision.InstanceSegmenter.load(tmp_path / "model.safetensors", net=colors)
    assert_same(model.train(), again.train())


def test_refusals(tmp_path):
    image, masks = picture(0)
    for change, words in (
        ({"n_centers": (10, 10)}, "three positive"),
        ({"penalties": (1.0, 0.0, 1.0)}, "penalties must be a positive number, got 0.0"),
        ({"n_centers": (10, 10.5, 10)}, "n_centers must be a whole number"),
        ({"random_state": None}, "random_state must be a whole number of at least 0, got None"),
        ({"n_batches": 1}, "at least 2"),
        ({"n_batches": 2.5}, "whole number"),
        ({"protocol": "both"}, "protocol"),
    ):
        with pytest.raises(ValueError, match=words):
            teacher(**change).observe(image, masks)
    model = teacher()
    for wrong, words in (
        ((image[:, :, 0].astype(float), masks), "uint8"),
        ((image, {"red": masks["red"][:9]}), "bool mask"),
        ((image, {"red": np.zeros_like(masks["red"])}), "fewer than"),
        ((image, {"red": (5, 5, 5, 9)}), "fewer than"),
        ((image, {"red": (500, 5, 600, 9)}), "fewer than"),
        ((image, {"": masks["red"]}), "label"),
        ((image, {3: masks["red"]}), "label"),
        ((image, 7), "mapping"),
    ):
        with pytest.raises(ValueError, match=words):
            model.observe(*wrong)
    with pytest.raises(ValueError, match="ignore must be bool"):
        model.observe(image, masks, ignore=np.zeros((3, 3), dtype=bool))
    assert model._frames == {}
    assert model.classes_ == []
    for action in (model.train, lambda: model.predict(image), lambda: model.save(tmp_path / "x")):
        with pytest.raises(NotFittedError):
            action()
    model.add_class("red")
    with pytest.raises(ValueError, match="already"):
        model.add_class("red")
    with pytest.raises(ValueError, match="not empty"):
        model.add_class("")
    model.observe(image, {})
    with pytest.raises(NotFittedError, match="with an instance"):
        model.train()


def test_only_instances_of_other_classes_are_replaced():
    near = [np.array([0.0, 0.0, 10.0, 10.0]), np.array([1.0, 0.0, 11.0, 10.0]), np.array([2.0, 0.0, 12.0, 10.0])]
    labels, scores = ("red", "red", "blue"), (0.9, 0.8, 0.7)
    found = [
        vision.Found(label, score, box, np.ones((1, 1), dtype=bool))
        for label, score, box in zip(labels, scores, near, strict=True)
    ]
    assert [one.label for one in finding._one_class_each(found)] == ["red", "red"]
