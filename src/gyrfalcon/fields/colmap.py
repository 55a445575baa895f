"""Cameras of COLMAP, as text or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gyrfalcon.arrays import Array

# Name, number of parameters, and how many of them are focal lengths; two of the center and the distortion follow.
MODELS = {
    0: ("SIMPLE_PINHOLE", 3, 1),
    1: ("PINHOLE", 4, 2),
    2: ("SIMPLE_RADIAL", 4, 1),
    3: ("RADIAL", 5, 1),
    4: ("OPENCV", 8, 2),
}
LARGEST_DISTORTION = 1e-6


@dataclass(frozen=True)
class View:
    """A picture and its camera."""

    name: str
    focal: tuple[float, float]
    center: tuple[float, float]
    pose: Array


def is_model(folder: Path) -> bool:
    """Whether a folder holds cameras and images of COLMAP."""
    return any(all((folder / f"{name}.{kind}").is_file() for name in ("cameras", "images")) for kind in ("bin", "txt"))


def read_model(folder: Path) -> list[View]:
    """All registered pictures by name, with poses from camera to world."""
    binary = (folder / "cameras.bin").is_file()
    try:
        if binary:
            cameras = dict(_binary_cameras((folder / "cameras.bin").read_bytes()))
            images = list(_binary_images((folder / "images.bin").read_bytes()))
        else:
            cameras = dict(_text_cameras((folder / "cameras.txt").read_text()))
            images = list(_text_images((folder / "images.txt").read_text()))
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder} is not a whole COLMAP model ({error!r})") from None
    if not images:
        raise ValueError(f"{folder} has no registered pictures")
    views = []
    for name, camera, turn, shift in sorted(images):
        if camera not in cameras:
            raise ValueError(f"{folder}: picture {name} names the camera {camera}, which is missing")
        focal, center = cameras[camera]
        views.append(View(name, focal, center, _pose(turn, shift)))
    return views


def _camera(model: str, values: tuple[float, ...]) -> tuple[tuple[float, float], tuple[float, float]]:
    known = {name: focals for name, _, focals in MODELS.values()}
    if model not in known:
        raise ValueError(f"COLMAP's camera model {model} is not read: undistort with colmap image_undistorter")
    focals = known[model]
    if any(abs(value) > LARGEST_DISTORTION for value in values[focals + 2 :]):
        raise ValueError(f"COLMAP's camera has distortion ({model}): undistort with colmap image_undistorter")
    return (values[0], values[focals - 1]), (values[focals], values[focals + 1])


def _pose(turn: tuple[float, ...], shift: tuple[float, ...]) -> Array:
    """From camera to world with y up and z back, from a quaternion and a shift from world to camera."""
    w, x, y, z = np.asarray(turn) / np.linalg.norm(turn)
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    pose = np.eye(4)
    pose[:3, :3] = rotation.T * np.array([1.0, -1.0, -1.0])
    pose[:3, 3] = -rotation.T @ np.asarray(shift)
    return pose


Camera = tuple[int, tuple[tuple[float, float], tuple[float, float]]]
Image = tuple[str, int, tuple[float, ...], tuple[float, ...]]


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def _text_cameras(text: str) -> Iterator[Camera]:
    for line in _lines(text):
        if words := line.split():
            yield int(words[0]), _camera(words[1], tuple(float(word) for word in words[4:]))


def _text_images(text: str) -> Iterator[Image]:
    lines = _lines(text)
    for line in lines[::2]:  # every second line lists points
        if words := line.split(maxsplit=9):
            numbers = [float(word) for word in words[1:8]]
            yield words[9], int(words[8]), tuple(numbers[:4]), tuple(numbers[4:])


def _binary_cameras(content: bytes) -> Iterator[Camera]:
    (count,) = struct.unpack_from("<Q", content)
    at = 8
    for _ in range(count):
        number, model, _, _ = struct.unpack_from("<iiQQ", content, at)
        at += 24
        if model not in MODELS:
            raise ValueError(f"COLMAP's camera model {model} is not read: undistort with colmap image_undistorter")
        name, values, _ = MODELS[model]
        yield number, _camera(name, struct.unpack_from(f"<{values}d", content, at))
        at += 8 * values


def _binary_images(content: bytes) -> Iterator[Image]:
    (count,) = struct.unpack_from("<Q", content)
    at = 8
    for _ in range(count):
        entries = struct.unpack_from("<i7di", content, at)
        at += struct.calcsize("<i7di")
        end = content.index(b"\0", at)
        name = content[at:end].decode()
        (points,) = struct.unpack_from("<Q", content, end + 1)
        at = end + 9 + 24 * points
        yield name, entries[8], entries[1:5], entries[5:8]
