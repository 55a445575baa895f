"""Videos, pictures, COCO files, and the command that uses them all."""

import json

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError
from typer.testing import CliRunner

from gyrfalcon import vision
from gyrfalcon.cli.app import app
from gyrfalcon.vision import coco
from gyrfalcon.vision.page import open_source
from reference.vision import colors, picture


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(6))
def test_run_lengths_are_those_of_pycocotools(seed):
    encoder = pytest.importorskip("pycocotools.mask")
    random = np.random.default_rng(seed)
    mask = random.random((23, 31)) < (0.5, 0.02, 0.98, 0.0, 1.0, 0.2)[seed]
    runs = coco.encode_mask(mask)
    packed = encoder.frPyObjects(runs, *mask.shape)
    assert np.array_equal(encoder.decode(packed), mask)
    assert np.array_equal(coco.decode_mask(runs), mask)
    compressed = encoder.encode(np.asfortranarray(mask.astype(np.uint8)))
    assert np.array_equal(coco.decode_mask(compressed), mask)
    assert np.array_equal(coco.decode_mask({**compressed, "counts": compressed["counts"].decode()}), mask)


@pytest.mark.parametrize(
    "runs",
    [
        {"size": [2, 2], "counts": [1, 2]},
        {"size": [2, 2], "counts": [5, -1]},
        {"size": [2, 2], "counts": "~"},
        {"size": [0, 2], "counts": []},
        {"size": [10**9, 10**9], "counts": [10**18]},
        {"size": [60_000, 60_000], "counts": [3_600_000_000]},
        {"size": [2, 2], "counts": "o" * 100_000},
    ],
)
def test_bad_run_lengths_are_refused(runs):
    with pytest.raises(ValueError, match=r"counts|size"):
        coco.decode_mask(runs)


def test_pictures_that_are_programs_are_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    for read in (lambda: list(vision.read_frames(tmp_path)), lambda: open_source(tmp_path).read(0)):
        with pytest.raises(UnidentifiedImageError):
            read()


def test_polygons_in_pictures_beyond_memory_are_refused(tmp_path):
    content = {
        "images": [{"id": 1, "file_name": "a.png", "height": 10**6, "width": 10**6}],
        "categories": [{"id": 1, "name": "mug"}],
        "annotations": [{"image_id": 1, "category_id": 1, "segmentation": [[0, 0, 5, 0, 5, 5]]}],
    }
    (tmp_path / "large.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="pixels at most"):
        vision.read_coco(tmp_path / "large.json")


def found_in(masks):
    return [vision.Found(label, 0.9, vision.boxes.box_of(mask), mask) for label, mask in masks.items()]


def test_a_coco_file_round_trips(tmp_path):
    _, masks = picture(0, ("red", "blue"))
    path = tmp_path / "found.json"
    vision.write_coco(path, [("a.png", (96, 128), found_in(masks)), ("b.png", (96, 128), [])])
    (first, shown), (second, nothing) = vision.read_coco(path)
    assert (first, second, nothing) == ("a.png", "b.png", {})
    assert {label: [mask.tolist() for mask in group] for label, group in shown.items()} == {
        label: [mask.tolist()] for label, mask in masks.items()
    }


def test_polygons_boxes_and_crowds_are_read(tmp_path):
    content = {
        "images": [{"id": 7, "file_name": "a.png", "height": 20, "width": 30}],
        "categories": [{"id": 3, "name": "mug"}],
        "annotations": [
            {"image_id": 7, "category_id": 3, "segmentation": [[2, 2, 10, 2, 10, 8, 2, 8]], "bbox": [2, 2, 8, 6]},
            {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]},
            {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 1},
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(content))
    ((_, shown),) = vision.read_coco(tmp_path / "a.json")
    polygon, box = shown["mug"]
    assert 48 <= polygon.sum() <= 63  # edges count as inside
    assert box.tolist() == [1, 2, 4, 6]
    for wrong in ("[]", "{", '{"images": [{}], "annotations": [], "categories": []}'):
        (tmp_path / "wrong.json").write_text(wrong)
        with pytest.raises(ValueError, match="not a COCO file"):
            vision.read_coco(tmp_path / "wrong.json")


def test_numbers_of_instances():
    _, masks = picture(0, ("red", "blue"))
    numbers = vision.number_masks(found_in(masks), (96, 128))
    assert np.array_equal(numbers == 1, masks["red"])
    again = vision.read_numbered(numbers, "thing")["thing"]
    assert [mask.tolist() for mask in again] == [mask.tolist() for mask in masks.values()]
    assert vision.read_numbered(np.zeros((3, 3), dtype=int), "thing") == {}
    with pytest.raises(ValueError, match="integers"):
        vision.read_numbered(np.zeros((3, 3)), "thing")
    with pytest.raises(ValueError, match="255"):
        vision.number_masks(found_in(masks) * 128, (96, 128))


def test_frames_of_folders_pictures_and_videos(tmp_path):
    frames = [picture(seed)[0] for seed in range(3)]
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / f"{2 - number}.png")
    names, read = zip(*vision.read_frames(tmp_path), strict=True)
    assert names == ("0.png", "1.png", "2.png")
    assert np.array_equal(read[0], frames[2])
    assert np.array_equal(next(vision.read_frames(tmp_path / "1.png"))[1], frames[1])
    with vision.VideoWriter(tmp_path / "clip.mp4", rate=10) as clip:
        for frame in frames:
            clip.write(frame)
        with pytest.raises(ValueError, match="a video has one"):
            clip.write(frames[0][:50])
    names, again = zip(*vision.read_frames(tmp_path / "clip.mp4"), strict=True)
    assert names == ("clip_000000", "clip_000001", "clip_000002")
    assert all(np.abs(a.astype(int) - b).mean() < 25 for a, b in zip(frames, again, strict=True))
    (tmp_path / "empty").mkdir()
    (tmp_path / "noise.mp4").write_bytes(b"\0" * 999)
    for wrong, kind in (("empty", ValueError), ("noise.mp4", ValueError), ("none.mp4", FileNotFoundError)):
        with pytest.raises(kind):
            next(vision.read_frames(tmp_path / wrong))
    with pytest.raises(ValueError, match="rate"):
        vision.VideoWriter(tmp_path / "x.mp4", rate=0)


def test_drawing_colors_what_was_found():
    image, masks = picture(0)
    drawn = vision.draw(image, found_in(masks), ["red"])
    assert np.array_equal(drawn[~masks["red"]], image[~masks["red"]])
    assert not np.array_equal(drawn[masks["red"]], image[masks["red"]])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = vision.InstanceSegmenter(colors, n_centers=(100, 100, 60), n_batches=2, length_scales=(4.0, 4.0, 8.0))
    for seed in range(4):
        model.observe(*picture(seed))
    model.train().save("red.safetensors")
    monkeypatch.setattr("gyrfalcon.vision.networks.MissingNetwork.__call__", lambda self, image: colors(image))
    with vision.VideoWriter("clip.mp4") as clip:
        for seed in range(100, 104):
            clip.write(picture(seed)[0])
    line = "segment red.safetensors clip.mp4 --out masks --video drawn.mp4 --every 2 --json"
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["frames"] == 2
    assert told["found"]["red"] >= 2
    assert sorted(path.name for path in (tmp_path / "masks").iterdir()) == [
        "clip_000000.png",
        "clip_000002.png",
        "found.json",
    ]
    mask = picture(100)[1]["red"]
    numbers = np.array(Image.open("masks/clip_000000.png"))
    assert vision.mask_iou((numbers == 1)[None], mask[None])[0, 0] > 0.5
    assert len(vision.read_coco("masks/found.json")) == 2
    assert len(list(vision.read_frames("drawn.mp4"))) == 2
    assert "frames" in CliRunner().invoke(app, ["segment", "red.safetensors", "clip.mp4", "--out", "masks"]).stdout
    pixels = vision.PixelClassifier(colors, n_centers=5)
    image, masks = picture(0)
    pixels.fit([image], [1 + masks["red"]]).save("pixels.safetensors")
    for wrong, words in (
        ("segment pixels.safetensors clip.mp4 --out masks", "not an InstanceSegmenter"),
        ("segment red.safetensors none.mp4 --out masks", "no such file"),
        ("segment red.safetensors clip.mp4 --out masks --video drawn.gif", ".mp4"),
    ):
        failed = CliRunner().invoke(app, wrong.split())
        assert failed.exit_code == 1
        assert words in failed.stderr
