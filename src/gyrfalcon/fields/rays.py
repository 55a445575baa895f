"""Pictures and their cameras as rays with colors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cameras import Intrinsics, check_poses, directions_through
from .space import Space

BACKGROUNDS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


@dataclass(frozen=True)
class Bundle:
    """Some rays: where they start, unit vectors along them, their pictures, times from 0 to 1, and true colors."""

    origins: Tensor
    directions: Tensor
    images: Tensor
    times: Tensor | None
    colors: Tensor

    def to(self, like: Tensor) -> Bundle:
        """In the type and on the device of a tensor."""
        times = None if self.times is None else self.times.to(like)
        images = self.images.to(like.device)
        return Bundle(self.origins.to(like), self.directions.to(like), images, times, self.colors.to(like))


@dataclass(frozen=True)
class Rays:
    """Pictures, their cameras and the space that they look at. Make one with `from_poses`, or read a folder.

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=6, size=16)
    >>> rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
    >>> len(rays), rays.shape
    (6, (16, 16))
    """

    images: Tensor
    poses: Tensor
    intrinsics: Intrinsics
    space: Space
    background: tuple[float, float, float] | None
    times: Tensor | None = None
    time_range: tuple[float, float] = (0.0, 1.0)
    image_ids: Tensor | None = None

    @classmethod
    def from_poses(
        cls,
        images: Any,
        poses: Any,
        focal: Any,
        *,
        near: float | str = "auto",
        far: float | str = "auto",
        background: str | Any | None = "white",
        times: Any = None,
        image_ids: Any = None,
        center: Any = None,
        space: str = "auto",
    ) -> Rays:
        """Rays of pictures with known cameras.

        Parameters
        ----------
        images : array of shape (n, height, width, 3 or 4), or a list of pictures of one size
            8-bit integers, or numbers from 0 to 1. A fourth channel is opacity; behind it is the background.
        poses : array of shape (n, 4, 4)
            From camera to world; cameras look along -z, x points to the right and y up.
        focal : float, pair, or one of these for each image
            In pixels: horizontal and vertical.
        near, far : float or "auto"
            Between which distances from the camera the scene is; found from the cameras unless they are given.
        background : "white", "black", three numbers, or None
            What rays see that meet nothing. None stands for a scene that fills the pictures.
        times : array of shape (n,), optional
            When each picture was taken, in any unit.
        image_ids : array of int of shape (n,), optional
            Pictures with one number share their appearance.
        center : pair, or one for each image, optional
            The principal point in pixels (x, y); the middle of the picture if it is not given.
        space : {"auto", "box", "contracted", "ndc"}
            A cube around what the cameras look at; all of space, contracted; or all that lies ahead of cameras that
            look one way. By default a cube if there is a background, and else what fits the cameras.
        """
        pictures, shape = _pictures(images)
        matrices = check_poses(poses)
        if len(matrices) != len(pictures):
            raise ValueError(f"poses: there are {len(matrices)} for {len(pictures)} images: give one for each image")
        color = _background(background)
        intrinsics = Intrinsics.of(focal, center, shape, len(pictures))
        when, span = _times(times, len(pictures))
        found = Space.around(matrices, intrinsics.values, shape, near, far, kind=space, bounded=color is not None)
        return cls(
            _opaque(pictures, color), matrices, intrinsics, found, color, when, span, _ids(image_ids, len(pictures))
        )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the pictures."""
        return int(self.images.shape[1]), int(self.images.shape[2])

    @property
    def pixels(self) -> int:
        """Of all pictures."""
        return math.prod(self.images.shape[:3])

    def at(self, indices: Tensor, dtype: torch.dtype = torch.float32) -> Bundle:
        """The rays of some pixels, which are counted through all pictures."""
        height, width = self.shape
        pictures = indices // (height * width)
        pixels = torch.stack([indices // width % height, indices % width], 1).to(torch.float64)
        directions = directions_through(pixels, self.intrinsics.values[pictures], self.poses[pictures, :3, :3])
        colors = self.images.reshape(-1, 3)[indices]
        colors = colors.to(dtype) / 255 if colors.dtype == torch.uint8 else colors.to(dtype)
        return Bundle(
            self.poses[pictures, :3, 3].to(dtype),
            directions.to(dtype),
            pictures if self.image_ids is None else self.image_ids[pictures],
            None if self.times is None else self.times[pictures].to(dtype),
            colors,
        )

    def subset(self, chosen: Any) -> Rays:
        """The rays of some pictures, in the same space."""
        rows = torch.arange(len(self))[torch.as_tensor(np.asarray(chosen))]
        return Rays(
            self.images[rows],
            self.poses[rows],
            Intrinsics(self.intrinsics.values[rows]),
            self.space,
            self.background,
            None if self.times is None else self.times[rows],
            self.time_range,
            None if self.image_ids is None else self.image_ids[rows],
        )


def _pictures(images: Any) -> tuple[Tensor, tuple[int, int]]:
    if isinstance(images, list | tuple):
        sizes = {np.asarray(image).shape for image in images}
        if len(sizes) > 1:
            shown = ", ".join(" × ".join(map(str, size)) for size in sorted(sizes)[:3])
            raise ValueError(
                f"images have different sizes ({shown}): resize them to one, and scale the focal lengths alike"
            )
        images = np.stack([np.asarray(image) for image in images]) if images else np.zeros((0, 0, 0, 3))
    array = images.detach().cpu().numpy() if isinstance(images, Tensor) else np.asarray(images)
    if array.ndim != 4 or array.shape[3] not in (3, 4) or 0 in array.shape:
        raise ValueError(f"images has shape {array.shape}: give pictures of shape (n, height, width, 3 or 4)")
    if array.dtype != np.uint8:
        if array.dtype.kind != "f":
            raise ValueError(f"images hold {array.dtype}: give 8-bit integers, or numbers from 0 to 1")
        array = array.astype(np.float32)
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ValueError("images hold numbers that are not between 0 and 1: divide them, or give 8-bit integers")
    return torch.from_numpy(np.ascontiguousarray(array)), array.shape[1:3]


def _background(given: Any) -> tuple[float, float, float] | None:
    if given is None:
        return None
    if isinstance(given, str):
        if given not in BACKGROUNDS:
            raise ValueError(
                f"background={given!r} is unknown: use 'white', 'black', three numbers from 0 to 1, or None"
            )
        return BACKGROUNDS[given]
    color = tuple(float(value) for value in np.asarray(given, dtype=np.float64).ravel())
    if len(color) != 3 or not all(0 <= value <= 1 for value in color):
        raise ValueError(f"background={given!r} must be three numbers from 0 to 1, 'white', 'black' or None")
    return color


def _opaque(pictures: Tensor, background: tuple[float, float, float] | None) -> Tensor:
    """Pictures without opacity: on the background, or on black where there is none."""
    if pictures.shape[3] == 3:
        return pictures
    whole = 255.0 if pictures.dtype == torch.uint8 else 1.0
    behind = torch.tensor(background or (0.0, 0.0, 0.0)) * whole
    alpha = pictures[..., 3:].float() / whole
    mixed = pictures[..., :3].float() * alpha + behind * (1 - alpha)
    return mixed.round().to(torch.uint8) if pictures.dtype == torch.uint8 else mixed


def _times(given: Any, count: int) -> tuple[Tensor | None, tuple[float, float]]:
    if given is None:
        return None, (0.0, 1.0)
    times = torch.as_tensor(np.asarray(given, dtype=np.float64)).ravel()
    if len(times) != count or not bool(times.isfinite().all()):
        raise ValueError(f"times must be {count} finite numbers, one for each image")
    low, high = float(times.min()), float(times.max())
    if high == low:
        raise ValueError("times are all the same: leave them out, or give pictures of several times")
    return (times - low) / (high - low), (low, high)


def _ids(given: Any, count: int) -> Tensor | None:
    if given is None:
        return None
    ids = np.asarray(given)
    if ids.shape != (count,) or ids.dtype.kind not in "iu" or (ids < 0).any():
        raise ValueError(f"image_ids must be {count} integers from 0 on, one for each image")
    return torch.from_numpy(ids.astype(np.int64))
