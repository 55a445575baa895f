"""`gyrfalcon field` on a folder of pictures."""

import json

import numpy as np
import pytest
from PIL import Image

from gyrfalcon import fields
from gyrfalcon.fields import training


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    scene = fields.moving_spheres(views=9, size=16)
    path = tmp_path_factory.mktemp("spheres")
    frames = []
    for i, (image, pose, time) in enumerate(zip(scene.images, scene.poses, scene.times, strict=True)):
        Image.fromarray(image).save(path / f"{i}.png")
        frames.append({"file_path": f"{i}", "transform_matrix": pose.tolist(), "time": float(time)})
    angle = 2 * np.arctan(8 / scene.focal)
    (path / "transforms_train.json").write_text(json.dumps({"camera_angle_x": angle, "frames": frames}))
    return path


def test_trains_measures_and_films(folder, gyrfalcon, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SAMPLES_PER_STEP", 1 << 12)
    done = gyrfalcon(f"field {folder} --steps 3 --video {tmp_path}/turn.mp4 --json --out", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert done.result["steps"] == 3
    assert done.result["views"] == 9
    assert np.isfinite(done.result["test_psnr"])
    model = fields.load(tmp_path / "m.safetensors")
    assert model.times == 50
    import av

    with av.open(str(tmp_path / "turn.mp4")) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(frames) == 60
    assert frames[0].shape == (16, 16, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--minutes 1 --steps 2", "exclude each other"),
        ("--video turn.avi", "must end in .mp4"),
    ],
)
def test_what_means_nothing_is_refused(folder, gyrfalcon, tmp_path, options, message):
    done = gyrfalcon(f"field {folder} {options} --out", tmp_path / "m.safetensors")
    assert done.code == 1
    assert message in done.err


def test_a_folder_without_cameras_is_refused(gyrfalcon, tmp_path):
    done = gyrfalcon(f"field {tmp_path} --out", tmp_path / "m.safetensors")
    assert done.code == 1
    assert "has no cameras" in done.err
