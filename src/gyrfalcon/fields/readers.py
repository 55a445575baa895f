"""Folders of pictures with known cameras: NeRF-synthetic and nerfstudio's JSON, COLMAP and LLFF."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array

from . import colmap
from .rays import Rays

DISTORTION = ("k1", "k2", "k3", "k4", "p1", "p2")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")  # whatever the name of a file says: EPS would run a program
ENDINGS = (".png", ".jpg", ".jpeg", ".JPG", ".PNG")


def read_scene(
    folder: str | os.PathLike[str], split: str = "train", *, size: int | None = None, **options: Any
) -> Rays:
    """Read pictures and cameras from a folder.

    It holds `transforms_<split>.json` or `transforms.json`, as NeRF-synthetic and nerfstudio write them, a COLMAP
    model in `sparse/0`, `sparse` or itself, as text or binary, or the `poses_bounds.npy` of LLFF. The pictures of the
    last two are in `images`.

    Parameters
    ----------
    folder : path
    split : str
        Which of the transforms to read; the other formats have one.
    size : int, optional
        Pictures are reduced until no side is longer.
    **options
        Of `Rays.from_poses`, such as `background`, `near` and `far`. The background is white for NeRF-synthetic, and
        None for the others.

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> fields.read_scene("no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder is not a folder: give one with transforms_train.json, a COLMAP model or ...
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(
            f"{path} is not a folder: give one with transforms_{split}.json, a COLMAP model or poses_bounds.npy"
        )
    for name in (f"transforms_{split}.json", "transforms.json"):
        if (path / name).is_file():
            return _read_transforms(path / name, size, options)
    model = next((place for place in (path / "sparse" / "0", path / "sparse", path) if colmap.is_model(place)), None)
    if model is not None:
        return _read_colmap(path, model, size, options)
    if (path / "poses_bounds.npy").is_file():
        return _read_llff(path, size, options)
    raise FileNotFoundError(
        f"{path} has no cameras: it needs transforms_{split}.json, transforms.json, a COLMAP model or poses_bounds.npy"
    )


def _read_transforms(path: Path, size: int | None, options: dict[str, Any]) -> Rays:
    try:
        content = json.loads(path.read_text())
        frames = content["frames"]
        poses = [frame["transform_matrix"] for frame in frames]
        names = [str(frame["file_path"]) for frame in frames]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a list of frames with file_path and transform_matrix ({error!r})") from None
    if not frames:
        raise ValueError(f"{path} has no frames")
    _check_lenses(path, content, frames)
    pictures, factor = _pictures([_existing(path.parent / name) for name in names], size)
    width = pictures[0].shape[1]
    if "fl_x" in content:
        pair = (float(content["fl_x"]), float(content.get("fl_y", content["fl_x"])))
        focal: tuple[float, float] = (pair[0] * factor, pair[1] * factor)
        if "cx" in content and "cy" in content:
            options = {"center": (content["cx"] * factor, content["cy"] * factor)} | options
    elif "camera_angle_x" in content:
        focal = (0.5 * width / math.tan(0.5 * float(content["camera_angle_x"])),) * 2
    else:
        raise ValueError(f"{path} has no focal length: it needs camera_angle_x or fl_x")
    synthetic = "camera_angle_x" in content and "fl_x" not in content
    options = {"background": "white" if synthetic else None} | options
    times = [frame.get("time") for frame in frames]
    if all(time is not None for time in times) and len(set(times)) > 1:
        options = {"times": times} | options
    return Rays.from_poses(pictures, np.asarray(poses, dtype=np.float64), focal, **options)


def _check_lenses(path: Path, content: dict[str, Any], frames: list[dict[str, Any]]) -> None:
    """Refuse what nerfstudio may say of cameras and is not read."""
    for lens in (content, *frames):
        if any(abs(float(lens.get(name) or 0)) > colmap.LARGEST_DISTORTION for name in DISTORTION):
            raise ValueError(f"{path}: the cameras have distortion: undistort the pictures first")
    if any(name in frame for frame in frames for name in ("fl_x", "fl_y", "cx", "cy")):
        raise ValueError(f"{path}: each frame has a camera of its own, which is not read: give fl_x once for all")


def _read_colmap(path: Path, model: Path, size: int | None, options: dict[str, Any]) -> Rays:
    views = colmap.read_model(model)
    pictures, factor = _pictures([_existing(path / "images" / view.name) for view in views], size)
    focal = np.array([[view.focal[0], view.focal[1]] for view in views]) * factor
    center = np.array([[view.center[0], view.center[1]] for view in views]) * factor
    poses = np.stack([view.pose for view in views])
    return Rays.from_poses(pictures, poses, focal, **{"background": None, "center": center} | options)


def _read_llff(path: Path, size: int | None, options: dict[str, Any]) -> Rays:
    table = np.load(path / "poses_bounds.npy", allow_pickle=False)
    if table.ndim != 2 or table.shape[1] != 17:
        raise ValueError(f"{path / 'poses_bounds.npy'} has shape {table.shape}, and (n, 17) is needed")
    images = sorted(p for p in (path / "images").glob("*") if p.suffix in ENDINGS)
    if len(images) != len(table):
        raise ValueError(f"{path / 'images'} has {len(images)} pictures for {len(table)} poses: give one for each")
    pictures, _ = _pictures(images, size)
    matrices = table[:, :15].reshape(-1, 3, 5)
    poses = np.tile(np.eye(4), (len(table), 1, 1))  # columns are down, right and back
    poses[:, :3, 0], poses[:, :3, 1] = matrices[:, :, 1], -matrices[:, :, 0]
    poses[:, :3, 2], poses[:, :3, 3] = matrices[:, :, 2], matrices[:, :, 3]
    focal = matrices[:, 2, 4] * pictures[0].shape[1] / matrices[:, 1, 4]
    near = 0.9 * float(table[:, 15].min())
    return Rays.from_poses(pictures, poses, focal, **{"background": None, "space": "ndc", "near": near} | options)


def _existing(path: Path) -> Path:
    """A picture, whose ending may be missing."""
    found = [path, *(path.with_name(path.name + ending) for ending in ENDINGS)]
    for candidate in found:
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"{path} is missing: the cameras name it, but there is no such picture")


def _pictures(paths: list[Path], size: int | None) -> tuple[list[Array], float]:
    """Pictures of one size, and the factor by which they were reduced."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("pictures need Pillow: pip install 'gyrfalcon[fields]'") from error
    if size is not None and size < 1:
        raise ValueError(f"size={size!r} must be positive")
    pictures, factor = [], 1.0
    for path in paths:
        try:
            with Image.open(path, formats=FORMATS) as opened:
                image = opened.convert("RGBA" if opened.mode in ("RGBA", "LA", "PA") else "RGB")
        except UnidentifiedImageError:
            raise ValueError(f"{path} is not a picture that Pillow can read") from None
        longest = max(image.size)
        if size is not None and longest > size:
            factor = size / longest
            image = image.resize((round(image.width * factor), round(image.height * factor)), Image.Resampling.BOX)
        pictures.append(np.asarray(image))
    return pictures, factor
