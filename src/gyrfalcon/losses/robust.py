"""A robust loss: squares near zero, absolute values far from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import ResidualLoss


@dataclass(frozen=True)
class Robust(ResidualLoss):
    """ℓ(f, y) = Σₖ log cosh(fₖ - yₖ), that is log(eᵘ + e⁻ᵘ) less its value at zero.

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Robust().value(torch.tensor([[0.1], [1e6]]), torch.zeros(2, 1)).numpy().round(3)
    array([5.00000000e-03, 9.99999307e+05])
    """

    name: ClassVar[str] = "robust"
    native: ClassVar[str | None] = "robust"

    def phi(self, u: Tensor) -> Tensor:
        size = u.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    def slope(self, u: Tensor) -> Tensor:
        return torch.tanh(u)

    def bend(self, u: Tensor) -> Tensor:
        return 4 * torch.sigmoid(2 * u) * torch.sigmoid(-2 * u)  # 1 - tanh², without its cancellation
