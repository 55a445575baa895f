"""Rays and the cube that bounds a scene."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .engine import RayBatch


def clip(rays: RayBatch) -> tuple[Tensor, Tensor]:
    """The parts of rays inside the cube [-1, 1]³; where the second is not larger, a ray misses it."""
    one, other = (-1 - rays.origins) / rays.directions, (1 - rays.origins) / rays.directions
    outside = (rays.directions == 0) & (rays.origins.abs() > 1)
    low = torch.where(rays.directions == 0, -math.inf, torch.minimum(one, other)).amax(1)
    high = torch.where(rays.directions == 0, math.inf, torch.maximum(one, other)).amin(1)
    far = torch.where(outside.any(1), -math.inf, high)
    return torch.maximum(rays.nearest, low), torch.minimum(rays.farthest, far)
