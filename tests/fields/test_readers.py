"""Folders of pictures with cameras, written here and read back."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from gyrfalcon import fields
from gyrfalcon.fields import colmap


@pytest.fixture(scope="module")
def scene():
    return fields.moving_spheres(views=6, size=20)


def save_pictures(folder, images, ending=".png"):
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"view_{i}{ending}" for i in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(folder / name)
    return names


def synthetic(folder, scene, **changes):
    save_pictures(folder / "train", scene.images)
    frames = [
        {"file_path": f"./train/view_{i}", "transform_matrix": pose.tolist(), "time": float(time)}
        for i, (pose, time) in enumerate(zip(scene.poses, scene.times, strict=True))
    ]
    angle = 2 * np.arctan(10 / scene.focal)
    (folder / "transforms_train.json").write_text(json.dumps({"camera_angle_x": angle, "frames": frames} | changes))


def test_synthetic_scenes(tmp_path, scene):
    synthetic(tmp_path, scene)
    rays = fields.read_scene(tmp_path)
    np.testing.assert_array_equal(rays.images, scene.images)
    np.testing.assert_allclose(rays.poses, scene.poses)
    np.testing.assert_allclose(rays.intrinsics.values, np.tile([scene.focal, scene.focal, 10, 10], (6, 1)))
    np.testing.assert_allclose(rays.times, scene.times)
    assert rays.background == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"), [({"k1": 0.1}, "distortion"), ({"fl_x": 20.0, "p2": -1e-3}, "undistort the pictures first")]
)
def test_distorted_cameras_are_refused(tmp_path, scene, changes, message):
    synthetic(tmp_path, scene, **changes)
    with pytest.raises(ValueError, match=message):
        fields.read_scene(tmp_path)


def test_cameras_of_single_frames_are_refused(tmp_path, scene):
    synthetic(tmp_path, scene)
    path = tmp_path / "transforms_train.json"
    content = json.loads(path.read_text())
    content["frames"][1]["fl_x"] = 30.0
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="a camera of its own"):
        fields.read_scene(tmp_path)


def test_pictures_that_are_programs_are_refused(tmp_path, scene):
    synthetic(tmp_path, scene)
    picture = next(tmp_path.rglob("*.png"))
    picture.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(ValueError, match="is not a picture"):
        fields.read_scene(tmp_path)


def test_pictures_are_reduced(tmp_path, scene):
    synthetic(tmp_path, scene)
    rays = fields.read_scene(tmp_path, size=10)
    assert rays.shape == (10, 10)
    np.testing.assert_allclose(rays.intrinsics.values, np.tile([scene.focal / 2, scene.focal / 2, 5, 5], (6, 1)))


def world_to_camera(pose):
    """Quaternion and shift as COLMAP writes them, whose cameras have y down and look along z."""
    rotation = (pose[:3, :3] * np.array([1.0, -1.0, -1.0])).T
    x, y, z, w = Rotation.from_matrix(rotation).as_quat()
    return (w, x, y, z), -rotation @ pose[:3, 3]


def colmap_text(folder, scene, names):
    folder.mkdir(parents=True)
    (folder / "cameras.txt").write_text(f"# cameras\n3 PINHOLE 20 20 {scene.focal} {scene.focal} 10 10\n")
    lines = ["# images"]
    for number, (name, pose) in enumerate(zip(names, scene.poses, strict=True)):
        turn, shift = world_to_camera(pose)
        lines += [
            " ".join(map(repr, [number + 1, *map(float, turn), *map(float, shift), 3])) + f" {name}",
            "1.0 2.0 -1",
        ]
    (folder / "images.txt").write_text("\n".join(lines) + "\n")


def colmap_binary(folder, scene, names):
    folder.mkdir(parents=True)
    camera = struct.pack("<iiQQ", 3, 1, 20, 20) + struct.pack("<4d", scene.focal, scene.focal, 10, 10)
    (folder / "cameras.bin").write_bytes(struct.pack("<Q", 1) + camera)
    content = struct.pack("<Q", len(names))
    for number, (name, pose) in enumerate(zip(names, scene.poses, strict=True)):
        turn, shift = world_to_camera(pose)
        content += struct.pack("<i7di", number + 1, *turn, *shift, 3) + name.encode() + b"\0"
        content += struct.pack("<Q", 1) + struct.pack("<ddq", 1.0, 2.0, -1)
    (folder / "images.bin").write_bytes(content)


@pytest.mark.parametrize("write", [colmap_text, colmap_binary])
def test_colmap_models(tmp_path, scene, write):
    names = save_pictures(tmp_path / "images", scene.images)
    write(tmp_path / "sparse" / "0", scene, names)
    rays = fields.read_scene(tmp_path, background="white")
    np.testing.assert_allclose(rays.poses, scene.poses, atol=1e-9)
    np.testing.assert_allclose(rays.intrinsics.values[0], [scene.focal, scene.focal, 10, 10])
    assert fields.read_scene(tmp_path).space.kind == "contracted"


def test_llff_folders(tmp_path, scene):
    save_pictures(tmp_path / "images", scene.images)
    poses = np.tile(np.eye(4), (6, 1, 1))
    poses[:, :2, 3] = np.random.default_rng(0).normal(size=(6, 2)) * 0.1
    table = np.zeros((6, 3, 5))
    table[:, :, 0], table[:, :, 1], table[:, :, 2:4] = -poses[:, :3, 1], poses[:, :3, 0], poses[:, :3, 2:4]
    table[:, :, 4] = [40, 40, 50]
    np.save(tmp_path / "poses_bounds.npy", np.concatenate([table.reshape(6, 15), np.tile([2.0, 9.0], (6, 1))], 1))
    rays = fields.read_scene(tmp_path)
    np.testing.assert_allclose(rays.poses, poses)
    assert rays.space.kind == "ndc"
    assert rays.space.near == pytest.approx(1.8)
    np.testing.assert_allclose(rays.intrinsics.values[:, 0], 25.0)


def test_what_is_missing_or_broken_is_named(tmp_path, scene):
    with pytest.raises(FileNotFoundError, match="has no cameras"):
        fields.read_scene(tmp_path)
    synthetic(tmp_path, scene)
    (tmp_path / "train" / "view_2.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"view_2 is missing: the cameras name it"):
        fields.read_scene(tmp_path)
    (tmp_path / "train" / "view_2.png").write_text("not a picture")
    with pytest.raises(ValueError, match="is not a picture"):
        fields.read_scene(tmp_path)
    (tmp_path / "transforms_train.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a list of frames"):
        fields.read_scene(tmp_path)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "cameras.bin").write_bytes(struct.pack("<Q", 3))
    (tmp_path / "cut" / "images.bin").write_bytes(struct.pack("<Q", 3))
    with pytest.raises(ValueError, match="not a whole COLMAP model"):
        colmap.read_model(tmp_path / "cut")
    (tmp_path / "bent").mkdir()
    (tmp_path / "bent" / "cameras.txt").write_text("1 SIMPLE_RADIAL 20 20 25 10 10 0.3\n")
    (tmp_path / "bent" / "images.txt").write_text("")
    with pytest.raises(ValueError, match="has distortion"):
        colmap.read_model(tmp_path / "bent")
