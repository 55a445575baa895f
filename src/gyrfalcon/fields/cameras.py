"""Cameras: what a pose and a focal length mean, which rays go through pixels, and what cameras look at.

A pose is the 4 × 4 matrix from camera to world of a camera that looks along -z, with x to the right and y up. Pixel
(0, 0) is the upper left one, and its center is at (0.5, 0.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

ROTATION_TOLERANCE = 1e-3  # of RᵀR - 1: poses of files have a few digits
LEAST_CONVERGENCE = 0.02  # smallest eigenvalue of the mean projection off the axes; zero where axes are parallel


@dataclass(frozen=True)
class Intrinsics:
    """Focal lengths and principal points in pixels, a row (fx, fy, cx, cy) for each camera."""

    values: Tensor

    @classmethod
    def of(cls, focal: Any, center: Any, shape: tuple[int, int], count: int) -> Intrinsics:
        focals = _rows("focal", focal, count)
        if not bool(torch.isfinite(focals).all()) or bool((focals <= 0).any()):
            raise ValueError(f"focal={focal!r} must be positive: give the focal length in pixels")
        middle = (shape[1] / 2, shape[0] / 2)
        centers = _rows("center", middle if center is None else center, count)
        return cls(torch.cat([focals, centers], 1))

    def scaled(self, index: int, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
        """Those of a camera whose picture has another size."""
        across, down = new[1] / old[1], new[0] / old[0]
        return self.values[index] * torch.tensor([across, down, across, down], dtype=torch.float64)


def _rows(name: str, given: Any, count: int) -> Tensor:
    """One number, a pair, a number for each camera or a pair for each, as pairs for each."""
    try:
        values = torch.as_tensor(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name}={given!r} must be a number, a pair, or one of these for each image") from None
    if values.ndim == 0:
        return values.expand(count, 2).clone()
    if values.shape == (2,) and count != 2:
        return values.expand(count, 2).clone()
    if values.shape == (count,):
        return values[:, None].expand(count, 2).clone()
    if values.shape == (count, 2):
        return values.clone()
    raise ValueError(
        f"{name} has shape {tuple(values.shape)}: give a number, a pair, or these for each of {count} images"
    )


def check_poses(poses: Any, name: str = "poses") -> Tensor:
    """Finite rigid matrices of shape (n, 4, 4), in float64."""
    try:
        found = torch.as_tensor(np.asarray(poses, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} cannot be read as an array: give 4 × 4 matrices from camera to world") from None
    if found.ndim == 3 and found.shape[1:] == (3, 4):
        bottom = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64).expand(len(found), 1, 4)
        found = torch.cat([found, bottom], 1)
    if found.ndim != 3 or found.shape[1:] != (4, 4) or len(found) == 0:
        raise ValueError(f"{name} has shape {tuple(found.shape)}: give matrices (n, 4, 4) from camera to world")
    turns = found[:, :3, :3]
    errors = (turns.mT @ turns - torch.eye(3, dtype=torch.float64)).abs().amax((1, 2))
    finite = found.isfinite().all(2).all(1)
    bad = torch.nonzero(~finite | ~(errors < ROTATION_TOLERANCE) | (torch.linalg.det(turns.nan_to_num()) < 0))
    if len(bad):
        raise ValueError(
            f"{name}[{int(bad[0])}] is not a rotation and a translation: give matrices from camera to world"
        )
    return found


def directions_through(pixels: Tensor, intrinsics: Tensor, turns: Tensor) -> Tensor:
    """Unit vectors through the centers of pixels (row, column), for one camera or one a pixel."""
    fx, fy, cx, cy = intrinsics.unbind(-1)
    across = (pixels[:, 1] + 0.5 - cx) / fx
    up = -(pixels[:, 0] + 0.5 - cy) / fy
    ahead = torch.stack([across, up, -torch.ones_like(across)], 1)
    return torch.nn.functional.normalize((turns @ ahead[:, :, None])[:, :, 0], dim=1)


def focus(poses: Tensor) -> Tensor | None:
    """The point nearest to all optical axes, or None where they are parallel or look away from each other."""
    origins, ahead = poses[:, :3, 3], -poses[:, :3, 2]
    off = torch.eye(3, dtype=poses.dtype) - ahead[:, :, None] * ahead[:, None]
    mean = off.mean(0)
    if float(torch.linalg.eigvalsh(mean)[0]) < LEAST_CONVERGENCE:
        return None
    point = torch.linalg.solve(mean, (off @ origins[:, :, None]).mean(0)[:, 0])
    in_front = ((point - origins) * ahead).sum(1) > 0
    return point if bool(in_front.double().mean() > 0.5) else None
