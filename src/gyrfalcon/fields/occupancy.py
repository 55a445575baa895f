"""Which cells of space are worth a look: a grid of the largest densities that were seen in them lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

DECAY = 0.95  # of what was seen, at each update
LEAST_OPACITY = 0.01  # of a sample in a cell that counts as occupied
WHOLE_UPDATES = 16  # updates that look at every cell; later ones look at a quarter of them


@dataclass
class Occupancy:
    """Largest log-densities of cells, and the cells that are occupied."""

    values: Tensor
    occupied: Tensor
    updates: int = 0

    @classmethod
    def full(cls, cells: int, device: torch.device) -> Occupancy:
        shape = (cells, cells, cells)
        return cls(torch.zeros(shape, device=device), torch.ones(shape, dtype=torch.uint8, device=device))

    def update(
        self, density: Callable[[Tensor], Tensor], step: float, generator: torch.Generator, *, timed: bool = False
    ) -> None:
        """Look at cells again. `density` takes points of the unit cube, with a time if `timed`.

        A cell is occupied if a sample in it, `step` long, would have an opacity of a hundredth, or a density above the
        mean if that is less.
        """
        cells = len(self.values)
        total = cells**3
        device = self.values.device
        if self.updates < WHOLE_UPDATES:
            chosen = torch.arange(total)
        else:
            chosen = torch.randperm(total, generator=generator)[: total // 4]
        place = torch.stack([chosen % cells, chosen // cells % cells, chosen // cells**2], 1)
        points = (place + torch.rand(place.shape, generator=generator)) / cells
        if timed:
            points = torch.cat([points, torch.rand((len(points), 1), generator=generator)], 1)
        seen = density(points.to(device)).float()
        flat = self.values.view(-1)
        flat.mul_(DECAY)
        chosen = chosen.to(device)
        flat[chosen] = torch.maximum(flat[chosen], seen)
        least = min(LEAST_OPACITY / step, float(flat.double().mean()))
        self.occupied = (self.values > least).to(torch.uint8)
        self.updates += 1

    @property
    def share(self) -> float:
        """Of the cells that are occupied."""
        return float(self.occupied.float().mean())
