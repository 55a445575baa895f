"""The squared loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import ResidualLoss


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """ℓ(f, y) = Σₖ (fₖ - yₖ)².

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Squared().value(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([4.], dtype=torch.float64)
    """

    name: ClassVar[str] = "squared"
    native: ClassVar[str | None] = "squared"

    def phi(self, u: Tensor) -> Tensor:
        return u.square()

    def slope(self, u: Tensor) -> Tensor:
        return 2 * u

    def bend(self, u: Tensor) -> Tensor:
        return torch.full_like(u, 2.0)
