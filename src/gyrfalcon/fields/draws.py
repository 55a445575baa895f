"""Which rays a step of training sees: any, or in the end those whose color changes with time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .rays import Bundle, Rays

FRAMES = 25  # before and after, among which the largest change counts
LATE = 0.6  # of the training: from here on rays are drawn by their changes
LEAST_CHANGE = 0.01  # so that rays without any are drawn now and then


@dataclass(frozen=True)
class Draws:
    """Draws pixels; `sums` are running sums of their changes, for the last part of training."""

    rays: Rays
    sums: Tensor | None = None

    @classmethod
    def of(cls, rays: Rays, importance: str) -> Draws:
        return cls(rays, torch.cumsum(changes(rays).reshape(-1).double(), 0) if importance == "time" else None)

    def draw(self, count: int, progress: float, generator: torch.Generator, like: Tensor) -> Bundle:
        """Some rays, in the type and on the device of a tensor."""
        if self.sums is None or progress < LATE:
            indices = torch.randint(self.rays.pixels, (count,), generator=generator)
        else:
            level = torch.rand(count, generator=generator, dtype=torch.float64) * self.sums[-1]
            indices = torch.searchsorted(self.sums, level).clamp(max=self.rays.pixels - 1)
        return self.rays.at(indices).to(like)


def changes(rays: Rays) -> Tensor:
    """The largest change of each pixel's color in the frames before and after, seen by the same camera."""
    cameras: dict[bytes, list[int]] = {}
    for index, pose in enumerate(rays.poses):
        cameras.setdefault(pose.numpy().tobytes(), []).append(index)
    if rays.times is None or all(len(frames) == 1 for frames in cameras.values()):
        raise ValueError("importance='time' needs cameras that stand still and see several times: use 'uniform'")
    largest = torch.full(rays.images.shape[:3], LEAST_CHANGE)
    for frames in cameras.values():
        order = sorted(frames, key=lambda index: float(rays.times[index]))  # type: ignore[index]
        pictures = rays.images[order].float() / (255 if rays.images.dtype == torch.uint8 else 1)
        for place, index in enumerate(order):
            around = pictures[max(0, place - FRAMES) : place + FRAMES + 1]
            change = (around - pictures[place]).abs().mean(3).amax(0)
            largest[index] = torch.maximum(largest[index], change)
    return largest
