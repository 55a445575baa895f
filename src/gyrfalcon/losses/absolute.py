"""The absolute loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import ResidualLoss


@dataclass(frozen=True)
class Absolute(ResidualLoss):
    """ℓ(f, y) = Σₖ abs(fₖ - yₖ), which medians minimize; with slope zero at zero.

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Absolute().value(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 2.0]]))
    tensor([3.], dtype=torch.float64)
    """

    name: ClassVar[str] = "absolute"
    native: ClassVar[str | None] = "absolute"
    smooth: ClassVar[bool] = False
    kink: ClassVar[float | None] = 0.0
    jump: ClassVar[float] = 2.0

    def phi(self, u: Tensor) -> Tensor:
        return u.abs()

    def slope(self, u: Tensor) -> Tensor:
        return u.sign()

    def bend(self, u: Tensor) -> Tensor:
        return torch.zeros_like(u)
