"""A field: planes, a decoder, and where along a ray to look; what rays see in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from .decoders import Decoder
from .engine import Engine, Gathered, RayBatch, Samples
from .layout import Layout
from .space import Space

SHIFT = -1.0  # of log-densities per radius of the scene, so that a field begins nearly transparent


class Sampler(Protocol):
    """Chooses the samples of rays, and learns to."""

    def samples(self, field: Field, rays: RayBatch, generator: torch.Generator | None = None) -> Samples:
        """Samples of rays; with a generator, those of a step of training."""

    def learn(self, field: Field, samples: Samples, weights: Tensor, share: float, generator: torch.Generator) -> None:
        """Use what a step of training found; `share` is that of the learning rate."""

    def without_time(self) -> Sampler:
        """That of a field without its planes of time."""

    def pack(self, *, training: bool) -> tuple[dict[str, Any], dict[str, Array]]:
        """What model files hold, and with `training` what the next step needs besides."""

    def take(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """What `pack` packed."""


@dataclass
class Field:
    """What is learned of a scene. `numbers` are those of the decoder, `codes` the appearance vectors of pictures."""

    space: Space
    layout: Layout
    planes: Tensor
    decoder: Decoder
    numbers: Tensor
    codes: Tensor | None
    sampler: Sampler
    background: tuple[float, float, float] | None
    engine: Engine

    @property
    def size(self) -> int:
        """How many numbers are learned."""
        return len(self.planes) + len(self.numbers) + (0 if self.codes is None else self.codes.numel())

    @property
    def unit(self) -> float:
        """The distance that density refers to when a field begins."""
        return 1.0 if self.space.lens is not None else self.space.radius

    @property
    def shift(self) -> float:
        """What is added to the first output to make it the logarithm of a density in the unit of distances."""
        return SHIFT - math.log(self.unit)

    def backdrop(self, rays: int) -> Tensor:
        """What rays see behind everything."""
        color = torch.tensor(self.background or (0.0, 0.0, 0.0), dtype=self.planes.dtype, device=self.planes.device)
        return color.expand(rays, 3).contiguous()

    def look(
        self, samples: Samples, directions: Tensor, codes: Tensor | None, in_planes: Tensor | None = None
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Outputs of the decoder at samples, and what takes their derivatives backward."""
        return self.decoder.outputs(
            self.engine, self.layout, self.planes, self.numbers, samples, directions, codes, self.shift, in_planes
        )

    @torch.no_grad()
    def density(self, points: Tensor) -> Tensor:
        """Density at points of the unit cube, in the unit of distances."""
        found = self.decoder.density(self.engine, self.layout, self.planes, self.numbers, points)
        return (found + self.shift).exp()

    @torch.no_grad()
    def gather(self, origins: Tensor, directions: Tensor, times: Tensor | None, codes: Tensor | None) -> Gathered:
        """What rays of the world see."""
        rays = self.space.rays(origins, directions, torch.full_like(origins[:, 0], 0.5), times)
        samples = self.sampler.samples(self, rays)
        outputs, _ = self.look(samples, directions, codes)
        found = self.engine.composite(samples, outputs, self.shift, self.backdrop(len(origins)))
        return replace(found, depth=self.space.depth(origins, directions, found.depth))
