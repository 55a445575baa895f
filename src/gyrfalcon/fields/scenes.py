"""A scene that is known exactly: spheres on a checkered disk, some of which move, ray traced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gyrfalcon.arrays import Array

from .views import look_at

LIGHT = np.array([0.4, 0.5, 0.77])
AMBIENT, SHINE = 0.35, 24.0  # share of light from everywhere, and the exponent of highlights
DISK_HEIGHT, DISK_RADIUS = -0.45, 0.95
STILL = (((-0.35, -0.3, -0.15), 0.3, (0.85, 0.25, 0.2)), ((0.4, 0.35, -0.2), 0.25, (0.2, 0.45, 0.85)))
MOVING = (((0.0, 0.0, 0.35), 0.18, (0.95, 0.75, 0.2)), ((0.0, 0.0, -0.28), 0.16, (0.3, 0.75, 0.35)))


@dataclass(frozen=True)
class Scene:
    """Pictures of a known scene: images and depths of each view, cameras, and times or None.

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=2, size=8, moving=False)
    >>> isinstance(scene, fields.Scene), scene.times
    (True, None)
    """

    images: Array
    depths: Array
    poses: Array
    focal: float
    times: Array | None


def moving_spheres(
    *,
    views: int = 40,
    size: int = 64,
    frames: int | None = None,
    moving: bool = True,
    present: bool = True,
    samples: int = 2,
    seed: int = 0,
) -> Scene:
    """Pictures of spheres over a disk, two of which move in circles, on a white background.

    Parameters
    ----------
    views : int
        Cameras, on a hemisphere around the scene.
    size : int
        Height and width of pictures in pixels.
    frames : int, optional
        Times at which each camera takes a picture. By default each takes one, at a time of its own.
    moving : bool
        Whether time passes. If not, all pictures are of the first moment.
    present : bool
        Whether the two spheres that move are there.
    samples : int
        Rays along each side of a pixel, whose mean is its color.
    seed : int

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=3, size=16)
    >>> scene.images.shape, scene.poses.shape, scene.times.shape
    ((3, 16, 16, 3), (3, 4, 4), (3,))
    """
    random = np.random.default_rng(seed)
    angles = np.pi * (1 + 5**0.5) * np.arange(views) + random.uniform(0, 2 * np.pi)
    heights = 0.15 + 0.75 * (np.arange(views) + 0.5) / views
    flat = np.sqrt(1 - heights**2)
    where = 3.2 * np.stack([flat * np.cos(angles), flat * np.sin(angles), heights], 1)
    cameras = np.stack([look_at(position, np.zeros(3), np.array([0.0, 0.0, 1.0])) for position in where])
    focal = 1.25 * size
    if frames is None:
        poses, times = cameras, random.permutation(np.linspace(0, 1, views))
    else:
        poses, times = np.repeat(cameras, frames, 0), np.tile(np.linspace(0, 1, frames), views)
    if not moving:
        times = np.zeros(len(poses))
    shots = [trace(pose, focal, size, time, present, samples) for pose, time in zip(poses, times, strict=True)]
    images = np.stack([image for image, _ in shots])
    depths = np.stack([depth for _, depth in shots])
    return Scene(images, depths, poses, focal, times if moving else None)


def trace(
    pose: Array, focal: float, size: int, time: float, present: bool = True, samples: int = 2
) -> tuple[Array, Array]:
    """One picture in 8 bits, and the mean depth of its pixels, infinite where only background is seen."""
    step = (np.arange(size * samples) + 0.5) / samples
    x, y = np.meshgrid((step - size / 2) / focal, -(step - size / 2) / focal)
    ahead = np.stack([x, y, -np.ones_like(x)], -1).reshape(-1, 3)
    directions = ahead @ pose[:3, :3].T
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    colors, depths = _see(pose[:3, 3], directions, time, present)
    colors = colors.reshape(size, samples, size, samples, 3).mean((1, 3))
    depths = depths.reshape(size, samples, size, samples).mean((1, 3))
    return (colors * 255).round().astype(np.uint8), depths


def spheres_at(time: float, present: bool = True) -> list[tuple[Array, float, Array]]:
    """Centers, radii and colors of the spheres at a time from 0 to 1."""
    found = [(np.array(center), radius, np.array(color)) for center, radius, color in STILL]
    angle = 2 * np.pi * time
    for turn, (center, radius, color) in enumerate(MOVING if present else ()):
        around = np.array([np.cos(angle + np.pi * turn), np.sin(angle + np.pi * turn), 0.0])
        found.append((np.array(center) + 0.55 * around, radius, np.array(color)))
    return found


def _see(origin: Array, directions: Array, time: float, present: bool) -> tuple[Array, Array]:
    light = LIGHT / np.linalg.norm(LIGHT)
    colors, depths = np.ones_like(directions), np.full(len(directions), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (DISK_HEIGHT - origin[2]) / directions[:, 2]
    points = origin + np.where(np.isfinite(t), t, 0.0)[:, None] * directions
    hit = (t > 0) & (np.hypot(points[:, 0], points[:, 1]) < DISK_RADIUS)
    checks = (np.floor(points[:, 0] * 4) + np.floor(points[:, 1] * 4)) % 2
    colors[hit] = (0.45 + 0.4 * checks[hit])[:, None]
    depths[hit] = t[hit]
    for center, radius, color in spheres_at(time, present):
        offset = origin - center
        middle = directions @ offset
        square = middle**2 - (offset @ offset - radius**2)
        t = -middle - np.sqrt(np.maximum(square, 0))
        hit = (square > 0) & (t > 0) & (t < depths)
        normals = (origin + t[hit, None] * directions[hit] - center) / radius
        lit = AMBIENT + (1 - AMBIENT) * np.maximum(normals @ light, 0)
        mirrored = 2 * (normals @ light)[:, None] * normals - light
        shine = 0.4 * np.maximum(-(mirrored * directions[hit]).sum(1), 0) ** SHINE
        colors[hit] = np.clip(lit[:, None] * color + shine[:, None], 0, 1)
        depths[hit] = t[hit]
    return colors, depths
