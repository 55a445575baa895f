"""Model files of vision: nothing but whole, unaltered models is read."""

import io

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon import persistence, vision
from gyrfalcon.persistence import ModelFileError
from reference.vision import colors, picture


def small_segmenter():
    model = vision.InstanceSegmenter(colors, n_centers=(8, 8, 6), n_batches=2)
    for seed in range(2):
        model.observe(*picture(seed, shape=(48, 64), size=(16, 30)))
    return model.train()


def small_pixels():
    model = vision.PixelClassifier(colors, n_centers=6, cells_per_image=12)
    image, masks = picture(0, shape=(48, 64), size=(16, 30))
    return model.fit([image], [1 + masks["red"]])


def content_of(model, folder, **options):
    model.save(folder / "model", **options)
    return (folder / "model").read_bytes()


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [content_of(small_segmenter(), folder, teachable=False), content_of(small_pixels(), folder)]


def coefficients(model):
    if isinstance(model, vision.PixelClassifier):
        return model._predictor.coefficients
    return model._model.detectors.function.coefficients


def mutated(content, generator, limit):
    content = bytearray(content)
    for _ in range(generator.integers(1, 4)):
        at = int(generator.integers(0, limit))
        match generator.integers(0, 4):
            case 0:
                content[at % len(content)] = int(generator.integers(0, 256))
            case 1:
                content[at % len(content)] ^= 1 << int(generator.integers(0, 8))
            case 2:
                del content[at : at + int(generator.integers(1, 40))]
            case 3:
                content[at:at] = bytes(generator.integers(0, 256, int(generator.integers(1, 40))).tolist())
    return bytes(content)


def test_ten_thousand_mutations(contents, monkeypatch):
    """Bytes changed, cut or added: an error, or, where only blanks changed, the same model."""
    expected = [coefficients(persistence.build(*persistence.parse(content))) for content in contents]
    generator = np.random.default_rng(0)
    survived = 0
    for trial in range(10_000):
        which = trial % 2
        limit = len(contents[which]) if trial % 3 else 800  # the header is where it is interesting
        content = mutated(contents[which], generator, limit)
        monkeypatch.setattr("builtins.open", lambda *_, _content=content, **__: io.BytesIO(_content))
        try:
            model = gf.load("mutated")
        except ModelFileError:
            continue
        survived += 1
        np.testing.assert_array_equal(coefficients(model), expected[which])
    assert survived < 500


def resigned(content, change):
    """The content with a change, under a checksum that fits it."""
    description, arrays = persistence.parse(content)
    change(description, arrays)
    return persistence.compose(description, arrays)


HARMFUL = {
    "no detectors": lambda d, a: d["fitted"].update(detectors=[]),
    "detectors of other classes": lambda d, a: d["fitted"].update(detectors=["blue"]),
    "the first version": lambda d, a: d["fitted"].pop("format"),
    "an earlier version": lambda d, a: d["fitted"].update(format=2),
    "silhouettes of another size": lambda d, a: a.update({"shapes.beta": a["shapes.beta"][:, :49]}),
    "doubled classes": lambda d, a: d["fitted"].update(classes=["red", "red"]),
    "classes of another kind": lambda d, a: d["fitted"].update(classes=[None]),
    "an array of another shape": lambda d, a: a.update({"proposer.beta": a["proposer.beta"][:, :3]}),
    "an array of another type": lambda d, a: a.update({"proposer.kinds": a["proposer.kinds"].astype(float)}),
    "anchors that do not exist": lambda d, a: a.update({"proposer.kinds": a["proposer.kinds"] + 99}),
    "numbers that are not finite": lambda d, a: a["detectors.beta"].fill(np.nan),
    "a missing array": lambda d, a: a.pop("masks.0.beta"),
    "directions of another size": lambda d, a: a.update({"directions.8": a["directions.8"][:2]}),
    "a network that does not exist": lambda d, a: d["parameters"].update(net="vgg"),
    "a network that is no text": lambda d, a: d["parameters"].update(net=["tiny-vit"]),
    "a negative length scale": lambda d, a: d["parameters"].update(length_scales=[-1.0, 1.0, 1.0]),
    "frames that are not there": lambda d, a: d["fitted"].update(teachable=True),
}


@pytest.mark.parametrize("harm", HARMFUL)
def test_files_with_a_fitting_checksum_are_checked_too(harm, contents, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(resigned(contents[0], HARMFUL[harm]))
    with pytest.raises(ModelFileError, match="model: "):
        gf.load(path)


def test_names_of_networks_are_kept(tmp_path):
    model = small_segmenter()
    model.net = "efficientnet-lite0@320"
    model.save(tmp_path / "model")
    assert vision.InstanceSegmenter.load(tmp_path / "model").net == "efficientnet-lite0@320"
