"""Pictures of a field from any camera."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from .cameras import directions_through
from .field import Field

RAYS_AT_ONCE = 1 << 13


class UnwantedError(RuntimeError):
    """A picture that nobody wants any more.

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=8, size=16, moving=False)
    >>> rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal)
    >>> model = fields.KPlanes((8,), random_state=0).fit(rays, steps=1)
    >>> model.render(scene.poses[0], wanted=lambda: False)
    Traceback (most recent call last):
    ...
    gyrfalcon.fields.views.UnwantedError: a picture of 16 × 16 pixels is not wanted any more
    """


def picture(
    field: Field,
    pose: Tensor,
    intrinsics: Tensor,
    shape: tuple[int, int],
    time: float | None,
    code: Tensor | None,
    wanted: Callable[[], bool] | None = None,
) -> tuple[Array, Array, Array]:
    """Color, depth and opacity of each pixel; depth is the mean distance along the ray of what is seen.

    `wanted` is asked before each part of the picture; where it says no, UnwantedError ends the work.
    """
    height, width = shape
    device, kind = field.planes.device, field.planes.dtype
    colors, depths, opacities = [], [], []
    for start in range(0, height * width, RAYS_AT_ONCE):
        if wanted is not None and not wanted():
            raise UnwantedError(f"a picture of {width} × {height} pixels is not wanted any more")
        index = torch.arange(start, min(height * width, start + RAYS_AT_ONCE))
        pixels = torch.stack([index // width, index % width], 1).double()
        directions = directions_through(pixels, intrinsics, pose[:3, :3]).to(device, kind)
        origins = pose[:3, 3].to(device, kind).expand(len(index), 3).contiguous()
        times = None if time is None else torch.full((len(index),), time, device=device, dtype=kind)
        codes = None if code is None else code.to(device).expand(len(index), -1)
        seen = field.gather(origins, directions, times, codes)
        colors.append(seen.color.cpu())
        depths.append((seen.depth / seen.opacity.clamp(min=1e-6)).cpu())
        opacities.append(seen.opacity.cpu())
    color = torch.cat(colors).view(height, width, 3).clamp(0, 1).numpy()
    return color, torch.cat(depths).view(shape).numpy(), torch.cat(opacities).view(shape).numpy()


def turn_around(center: Array, start: Array, frames: int, up: Array) -> Array:
    """Poses of cameras on a circle around a point, all looking at it; the first is where `start` stands."""
    up = up / np.linalg.norm(up)
    away = start[:3, 3] - center
    poses = []
    for angle in 2 * np.pi * np.arange(frames) / frames:
        along = up * (up @ away)
        turned = along + np.cos(angle) * (away - along) + np.sin(angle) * np.cross(up, away)
        poses.append(look_at(center + turned, center, up))
    return np.stack(poses)


def look_at(position: Array, target: Array, up: Array) -> Array:
    """The pose of a camera that looks from a position at a target."""
    back = (position - target) / np.linalg.norm(position - target)
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(back, right), back], 1)
    pose[:3, 3] = position
    return pose
