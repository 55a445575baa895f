"""Where along a ray to look: in cells that are occupied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from .engine import RayBatch, Samples
from .occupancy import Occupancy

if TYPE_CHECKING:
    from .field import Field

CELLS = 64  # along an axis of the occupancy grid
EVERY = 16  # steps between looks at the cells
COARSE_STEPS = 64  # steps of training whose samples are twice as far apart: nothing is known yet


@dataclass
class OccupancySampler:
    """Samples every `step` in cells that are occupied."""

    occupancy: Occupancy
    step: float
    trained: int = 0

    def samples(self, field: Field, rays: RayBatch, generator: torch.Generator | None = None) -> Samples:
        """Samples of rays; with a generator, those of a step of training."""
        step = 2 * self.step if generator is not None and self.trained < COARSE_STEPS else self.step
        return field.engine.march(rays, self.occupancy.occupied, step, field.space.contracted)

    def learn(self, field: Field, samples: Samples, weights: Tensor, share: float, generator: torch.Generator) -> None:
        """Look at the cells again, now and then."""
        self.trained += 1
        if self.trained % EVERY == 0:
            self.occupancy.update(field.density, self.step, generator, timed=field.layout.timed)

    def without_time(self) -> OccupancySampler:
        """That of a field without its planes of time: cells are occupied as before."""
        return self

    def pack(self, *, training: bool) -> tuple[dict[str, Any], dict[str, Array]]:
        """What model files hold, and with `training` what the next step needs besides."""
        facts = {"step": self.step, "trained": self.trained, "updates": self.occupancy.updates}
        arrays = {"occupied": self.occupancy.occupied.cpu().numpy()}
        if training:
            arrays["values"] = self.occupancy.values.cpu().numpy()
        return facts, arrays

    def take(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """What `pack` packed."""
        occupied = torch.from_numpy(arrays["occupied"])
        if occupied.ndim != 3 or len(set(occupied.shape)) != 1 or occupied.dtype != torch.uint8:
            raise ValueError("the occupied cells are not a cube")
        device = self.occupancy.occupied.device
        values = torch.from_numpy(arrays["values"]) if "values" in arrays else occupied.float()
        self.occupancy = Occupancy(values.to(device), occupied.to(device), int(facts["updates"]))
        self.step, self.trained = float(facts["step"]), int(facts["trained"])
