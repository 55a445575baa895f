"""The part of space that a field covers, found from the cameras, and rays in its coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cameras import focus
from .engine import RayBatch
from .warps import normalized_device_rays

KINDS = ("box", "contracted", "ndc")
NEAREST_SHARE = 0.05  # of the radius: nothing is seen closer to a camera
FARTHEST_SHARE = 100.0  # of the radius, where space is contracted


@dataclass(frozen=True)
class Space:
    """A cube around `center`, all of space, or all that lies ahead of a camera at `center`.

    Coordinates are (x - center) turned and divided by `radius`; the cube is [-1, 1]³ in them.
    """

    kind: str
    center: tuple[float, float, float]
    radius: float
    near: float
    far: float
    turn: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    lens: tuple[float, float, int, int] | None = None  # focal lengths and shape of the camera of "ndc"

    @property
    def contracted(self) -> bool:
        return self.kind == "contracted"

    @property
    def extent(self) -> float:
        """Half of the width that planes cover, in units of the radius."""
        return 2.0 if self.contracted else 1.0

    @classmethod
    def around(
        cls,
        poses: Tensor,
        intrinsics: Tensor,
        shape: tuple[int, int],
        near: float | str,
        far: float | str,
        *,
        kind: str,
        bounded: bool,
    ) -> Space:
        """What cameras look at."""
        if kind not in (*KINDS, "auto"):
            raise ValueError(f"space={kind!r} is unknown: use 'auto', 'box', 'contracted' or 'ndc'")
        closest, farthest = _limit("near", near), _limit("far", far)
        if closest is not None and farthest is not None and not closest < farthest:
            raise ValueError(f"near={near!r} must be less than far={far!r}")
        point = focus(poses)
        if kind == "auto":
            kind = "box" if bounded else "ndc" if point is None else "contracted"
        if kind == "ndc":
            return _ahead(poses, intrinsics, shape, closest)
        if point is None:
            return _without_focus(poses, closest, farthest, kind)
        reach = (poses[:, :3, 3] - point).norm(dim=1)
        half = torch.tensor([shape[1] / 2, shape[0] / 2], dtype=torch.float64)
        if kind == "contracted":
            radius = float(reach.median())
        else:  # what the pictures show around the point that all look at
            radius = float((reach * (half / intrinsics[:, :2]).amax(1)).median())
        if not radius > 0:
            raise ValueError("poses: the cameras stand where they look at: check that poses go from camera to world")
        closest = NEAREST_SHARE * radius if closest is None else closest
        beyond = FARTHEST_SHARE * radius if kind == "contracted" else float(reach.max()) + math.sqrt(3) * radius
        farthest = beyond if farthest is None else farthest
        return cls(kind, tuple(point.tolist()), radius, closest, farthest)

    def rays(self, origins: Tensor, directions: Tensor, jitter: Tensor, times: Tensor | None) -> RayBatch:
        """Rays in the coordinates of the space."""
        turn, center = self._frame(origins.device)
        start = ((origins.double() - center) @ turn) / self.radius
        along = (directions.double() @ turn) / self.radius
        near, far = self.near, self.far
        if self.lens is not None:
            fx, fy, height, width = self.lens
            start, along = normalized_device_rays(start, along, (fx, fy), (height, width), self.near / self.radius)
            near, far = 0.0, 1.0
        kind = origins.dtype
        nearest, farthest = torch.full_like(jitter, near), torch.full_like(jitter, far)
        return RayBatch(start.to(kind), along.to(kind), nearest, farthest, jitter, times)

    def depth(self, origins: Tensor, directions: Tensor, depth: Tensor) -> Tensor:
        """Distances of the world from those along the rays."""
        if self.lens is None:
            return depth
        turn, center = self._frame(origins.device)
        z = ((origins.double() - center) @ turn)[:, 2]
        dz = (directions.double() @ turn)[:, 2]
        share = depth.double().clamp(max=1 - 1e-6)
        return ((-self.near - z) / dz + self.near / -dz * share / (1 - share)).to(depth.dtype)

    def _frame(self, device: torch.device) -> tuple[Tensor, Tensor]:
        turn = torch.tensor(self.turn, dtype=torch.float64, device=device)
        return turn, torch.tensor(self.center, dtype=torch.float64, device=device)

    def step(self, resolution: int) -> float:
        """Distance between samples that suits so many nodes along an axis, in the unit of distances along rays."""
        if self.lens is not None:
            return 1.0 / resolution
        return 2 * self.radius * self.extent / resolution


def _limit(name: str, value: Any) -> float | None:
    if value == "auto":
        return None
    if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name}={value!r} must be a distance that is not negative, or 'auto'")
    return float(value)


def _without_focus(poses: Tensor, near: float | None, far: float | None, kind: str) -> Space:
    if near is None or far is None:
        raise ValueError(
            "near and far cannot be found, because the cameras do not look at a common point: give near and far, or "
            "background=None if the scene fills the pictures"
        )
    middle = poses[:, :3, 3] - poses[:, :3, 2] * (near + far) / 2
    spread = float((middle - middle.mean(0)).norm(dim=1).max())
    return Space(kind, tuple(middle.mean(0).tolist()), (far - near) / 2 + spread, near, far)


def _ahead(poses: Tensor, intrinsics: Tensor, shape: tuple[int, int], near: float | None) -> Space:
    """Normalized device coordinates of the mean camera."""
    back = torch.nn.functional.normalize(poses[:, :3, 2].mean(0), dim=0)
    right = torch.linalg.cross(poses[:, :3, 1].mean(0), back)
    right = torch.nn.functional.normalize(right, dim=0)
    turn = torch.stack([right, torch.linalg.cross(back, right), back], 1)
    if float((poses[:, :3, 2] @ back).min()) < 0.1:
        raise ValueError("space='ndc' is for cameras that look one way: use 'contracted' or 'box'")
    origins = (poses[:, :3, 3] - poses[:, :3, 3].mean(0)) @ turn
    spread = float(origins.norm(dim=1).max())
    if near is None:
        near = 2 * spread if spread > 0 else 1.0
    if float(origins[:, 2].min()) <= -near:
        raise ValueError(f"near={near!r} is behind a camera: give a larger one")
    center = poses[:, :3, 3].mean(0)
    fx, fy = intrinsics[:, 0].mean(), intrinsics[:, 1].mean()
    lens = (float(fx), float(fy), int(shape[0]), int(shape[1]))
    return Space("ndc", tuple(center.tolist()), 1.0, float(near), math.inf, tuple(map(tuple, turn.tolist())), lens)
