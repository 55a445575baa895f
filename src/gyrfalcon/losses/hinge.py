"""The hinge loss of support vector machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import MarginLoss


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """ℓ(f, y) = max(0, 1 - ⟨f, y⟩), with slope zero at the kink.

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Hinge().value(torch.tensor([[0.5], [2.0]]), torch.tensor([[-1.0], [1.0]]))
    tensor([1.5000, 0.0000], dtype=torch.float64)
    """

    name: ClassVar[str] = "hinge"
    native: ClassVar[str | None] = "hinge"
    smooth: ClassVar[bool] = False
    kink: ClassVar[float | None] = 1.0
    jump: ClassVar[float] = 1.0

    def phi(self, u: Tensor) -> Tensor:
        return (1 - u).clamp(min=0)

    def slope(self, u: Tensor) -> Tensor:
        return -(u < 1).to(u.dtype)

    def bend(self, u: Tensor) -> Tensor:
        return torch.zeros_like(u)

    def log_odds(self, u: Tensor) -> Tensor:
        raise ValueError("loss='hinge' estimates no probabilities: take the logistic loss")
