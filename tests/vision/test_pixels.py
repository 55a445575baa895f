"""Classes of pixels: against dense Nyström, frame by frame, with undo."""

import numpy as np
import pytest
from scipy.ndimage import binary_erosion
from sklearn.exceptions import NotFittedError

import gyrfalcon as gf
from gyrfalcon import vision
from gyrfalcon.vision.additive import RECENTERINGS
from gyrfalcon.vision.pixels import cell_shares
from reference import dense, ridge
from reference.vision import colors, picture

PICTURES = [picture(seed, ("red", "blue")) for seed in range(6)]
SETTINGS = {"n_centers": 60, "length_scale": 8.0, "penalty": 1e-5, "cells_per_image": 90}


def marks(masks):
    """Numbers: 1 for background, 2 and 3 for the two objects."""
    return 1 + masks["red"].astype(int) + 2 * masks["blue"]


def taught(pictures=PICTURES, **changes):
    model = vision.PixelClassifier(colors, **SETTINGS | changes)
    ids = [model.observe(image, marks(masks)) for image, masks in pictures]
    return model.train(), ids


def accuracy(model, image, masks):
    return (model.predict(image) == marks(masks)).mean()


def test_fit_finds_the_objects_of_new_pictures():
    model = vision.PixelClassifier(colors, **SETTINGS).fit([p[0] for p in PICTURES], [marks(p[1]) for p in PICTURES])
    image, masks = picture(99, ("red", "blue"))
    assert accuracy(model, image, masks) > 0.93
    assert model.classes_ == [1, 2, 3]
    shares = model.predict_proba(image)
    assert shares.shape == (*image.shape[:2], 3)
    np.testing.assert_allclose(shares.sum(2), 1, rtol=1e-6)
    assert shares.min() >= 0
    assert accuracy(taught()[0], image, masks) > 0.93


def rows_and_targets(model):
    frames = model._model.frames.values()
    X, shares = (np.concatenate([getattr(rows, name) for rows in frames]) for name in ("X", "shares"))
    assert 0 < (shares.max(1) < 1).mean() < 1  # some cells are mixed
    return X.astype(np.float64), 2.0 * shares - 1.0


def assert_is_dense_nystrom(model):
    """On all cells. Predictions differ by less than 1e-6 from those of a dense solution in float64.

    For centers that are not nearly the same: a jitter of 1e-10 moves solutions where k(C, C) is worse conditioned.
    """
    X, Y = rows_and_targets(model)
    sums = model._model.sums
    beta, intercept, _ = sums.moments().solve(model.penalty)
    C = model._model.centers
    kernel = gf.kernels.Gaussian(model.length_scale)
    assert np.linalg.cond(kernel(C)) < 1e9
    K = dense(kernel, X, C)
    expected, offset = ridge.nystrom(K, dense(kernel, C, C), Y, model.penalty, intercept=True)
    np.testing.assert_allclose(K @ beta + intercept, K @ expected + offset, rtol=0, atol=1e-6)


def test_sums_of_frames_solve_the_dense_problem_and_forget_to_the_last_bit():
    model, ids = taught(length_scale=1.0)
    assert_is_dense_nystrom(model)
    centers = model._model.centers
    before = model._model.sums
    extra = model.observe(*_marked(picture(50, ("red", "blue"))))
    model.forget(extra)
    for name in ("second", "features", "cross", "targets", "squares"):
        assert np.array_equal(getattr(model._model.sums, name), getattr(before, name))
    model.forget(ids[2])
    assert_is_dense_nystrom(model.train())
    assert model._model.centers is centers
    assert model.n_rows_ == before.count - SETTINGS["cells_per_image"]
    with pytest.raises(KeyError, match="not one of"):
        model.forget(ids[2])


def _marked(shown):
    return shown[0], marks(shown[1])


def test_order_of_frames_after_the_centers_does_not_change_a_bit():
    first, last = PICTURES[:4], [picture(seed, ("red", "blue")) for seed in range(20, 26)]
    forward, backward = taught(first + last)[0], taught(first + last[::-1])[0]
    for name in ("second", "features", "cross", "targets", "squares"):
        assert np.array_equal(getattr(forward._model.sums, name), getattr(backward._model.sums, name))
    image = picture(99, ("red", "blue"))[0]
    assert np.array_equal(forward.decision_function(image), backward.decision_function(image))


def test_the_work_of_training_does_not_grow_with_frames():
    """The same m × m system after 5 and after 50 frames, and no row is looked at."""
    model = vision.PixelClassifier(colors, **SETTINGS | {"cells_per_image": 20})
    sizes = []
    for seed in range(50):
        model.observe(*_marked(picture(seed, ("red", "blue"))))
        if seed + 1 in (5, 50):
            frames, model._model.frames = model._model.frames, {}
            model.train()
            sizes.append(model._model.sums.second.shape)
            model._model.frames = frames
    assert sizes == [(60, 60), (60, 60)]


def test_memory_is_bounded():
    model = vision.PixelClassifier(colors, **SETTINGS | {"cells_per_image": 5})
    features = model._rows
    model.observe(*_marked(PICTURES[0]))
    rows, _ = features(*_marked(PICTURES[1]))
    for number in range(1, 800):
        model._model.add(number, rows)
    assert len(model._model.frames) == RECENTERINGS[-1]
    assert model._model.count == 5 * 800
    with pytest.raises(KeyError, match="not one of the last images"):
        model.forget(0)


def test_classes_by_name_come_one_after_another():
    model = vision.PixelClassifier(colors, **SETTINGS)
    for image, masks in PICTURES[:3]:
        model.observe(image, {"red": masks["red"], "rest": ~(masks["red"] | masks["blue"])})
    model.train()
    assert model.classes_ == ["red", "rest"]
    for image, masks in PICTURES[3:]:
        model.observe(image, {"blue": masks["blue"]})
    model.train()
    assert model.classes_ == ["red", "rest", "blue"]
    image, masks = picture(99, ("red", "blue"))
    predicted = model.predict(image)
    for label, mask in masks.items():
        inner = binary_erosion(mask, iterations=4)  # half a cell from the edge
        assert (predicted[inner] == label).mean() > 0.9
    model.add_class("never shown")
    assert model.train().decision_function(image).shape[2] == 4
    assert "never shown" not in set(model.predict(image).ravel())


def test_a_cell_is_of_each_class_as_much_as_its_marked_pixels():
    marked = np.zeros((16, 24), dtype=int)
    marked[:8, :3], marked[:8, 3:4] = 2, 1
    marked[8:, 23] = 1
    assert cell_shares(marked, (2, 3), 2).tolist() == [[0.25, 0.75], *[[0, 0]] * 4, [1, 0]]
    np.testing.assert_allclose(cell_shares(marked, (1, 1), 2), [[16 / 40, 24 / 40]], rtol=1e-6)


def test_mixed_cells_are_learned_from_as_what_they_are():
    """Of a color that is half of one class and half of the other, scores are those of neither."""
    image, marks = np.full((64, 64, 3), 60, dtype=np.uint8), np.ones((64, 64), dtype=int)
    image[:, :16], image[:, 48:] = 200, 120
    marks[:, :16], marks[:, 48:] = 2, 1 + np.arange(16) % 2
    model = vision.PixelClassifier(colors, n_centers=30).fit([image], [marks])
    scores = model.decision_function(image)[32]
    np.testing.assert_allclose(scores[54:60], 0, atol=0.1)
    np.testing.assert_allclose(scores[4:8], [[-1, 1]] * 4, atol=0.1)


@pytest.mark.parametrize("trained", [True, False])
def test_a_file_goes_on_where_it_was(trained, tmp_path):
    model, ids = taught()
    if not trained:
        model.observe(*_marked(picture(50, ("red", "blue"))))
    path = tmp_path / "pixels.safetensors"
    model.save(path)
    again = vision.PixelClassifier.load(path, net=colors)
    image = picture(99, ("red", "blue"))[0]
    assert np.array_equal(again.decision_function(image), model.decision_function(image))
    for each in (model, again):
        each.forget(ids[0])
        each.observe(*_marked(picture(51, ("red", "blue"))))
        each.train()
    assert np.array_equal(again.decision_function(image), model.decision_function(image))
    with pytest.raises(ValueError, match="net=<callable>"):
        gf.load(path).predict(image)


def test_refusals():
    image, masks = PICTURES[0]
    model = vision.PixelClassifier(colors)
    with pytest.raises(NotFittedError, match="observe"):
        model.train()
    with pytest.raises(NotFittedError, match="not trained"):
        model.predict(image)
    with pytest.raises(NotFittedError, match="not trained"):
        model.save("nowhere.safetensors")
    for wrong, words in (
        ((image.astype(float), marks(masks)), "uint8"),
        ((image, marks(masks)[:5]), "shape"),
        ((image, -marks(masks)), "0 or a class"),
        ((image, np.zeros(image.shape[:2], int)), "no pixel is marked"),
        ((image, {"a": marks(masks)}), "must be bool"),
    ):
        with pytest.raises(ValueError, match=words):
            model.observe(*wrong)
    with pytest.raises(ValueError, match="as many"):
        model.fit([image], [])
    for change, words in (
        ({"n_centers": 0}, "n_centers"),
        ({"penalty": -1.0}, "penalty"),
        ({"net": "vgg"}, "tiny-vit"),
    ):
        with pytest.raises(ValueError, match=words):
            vision.PixelClassifier(**{"net": colors} | change).observe(image, marks(masks))
    with pytest.raises(TypeError, match="net must be"):
        vision.PixelClassifier(3).observe(image, marks(masks))
    with pytest.raises(TypeError, match="mapping from strides"):
        vision.PixelClassifier(lambda image: [1]).observe(image, marks(masks))
    with pytest.raises(ValueError, match="channels, rows, columns"):
        vision.PixelClassifier(lambda image: {8: np.zeros((3, 4))}).observe(image, marks(masks))
    with pytest.raises(ValueError, match="not finite"):
        vision.PixelClassifier(lambda image: {8: np.full((3, 4, 4), np.nan)}).observe(image, marks(masks))


def test_what_is_refused_changes_nothing():
    """Neither a fit with wrong scribbles nor an observation without marks leaves a trace."""
    model, _ = taught()
    image, masks = PICTURES[0]
    before = model.predict_proba(image)
    for wrong in ([marks(masks), np.zeros(3, dtype=int)], [np.zeros_like(marks(masks))] * 2):
        with pytest.raises(ValueError, match="scribbles"):
            model.fit([image, image], wrong)
    for wrong in ({"a": masks["red"], "b": masks["red"][:3]}, {"new": np.zeros_like(masks["red"])}):
        with pytest.raises(ValueError, match="scribbles"):
            model.observe(image, wrong)
    assert model.classes_ == [1, 2, 3]
    np.testing.assert_array_equal(model.train().predict_proba(image), before)


def test_parameters_are_fixed_by_the_first_picture(tmp_path):
    model, _ = taught()
    image, masks = PICTURES[0]
    model.set_params(penalty=1e-3)
    for act in (model.train, lambda: model.observe(image, marks(masks)), lambda: model.add_class("more")):
        with pytest.raises(ValueError, match=r"penalty was 1e-05 when the first frame was observed and is 0\.001 now"):
            act()
    assert model.fit([image], [marks(masks)])._model.penalty == 1e-3  # which begins anew
    model.save(tmp_path / "model")
    again = vision.PixelClassifier.load(tmp_path / "model", net=colors)
    again.observe(image, marks(masks))
    again.set_params(net=lambda image: colors(image))
    with pytest.raises(ValueError, match="net was"):
        again.train()
