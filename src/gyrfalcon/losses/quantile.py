"""The loss of quantiles, also called pinball loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import ResidualLoss


@dataclass(frozen=True)
class Quantile(ResidualLoss):
    """ℓ(f, y) = Σₖ max(level·(yₖ - fₖ), (1 - level)·(fₖ - yₖ)), which the quantile of that level minimizes.

    Parameters
    ----------
    level : float
        Between 0 and 1: the share of targets that are to lie below f; 0.5 is the median.

    Examples
    --------
    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Quantile(0.9).value(torch.tensor([[0.0], [2.0]]), torch.ones(2, 1))
    tensor([0.9000, 0.1000], dtype=torch.float64)
    """

    level: float = 0.5

    name: ClassVar[str] = "quantile"
    native: ClassVar[str | None] = "quantile"
    smooth: ClassVar[bool] = False
    kink: ClassVar[float | None] = 0.0
    jump: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level!r}")

    @property
    def native_parameter(self) -> float:
        return self.level

    def phi(self, u: Tensor) -> Tensor:
        return torch.maximum((1 - self.level) * u, -self.level * u)

    def slope(self, u: Tensor) -> Tensor:
        return (1 - self.level) * (u > 0).to(u.dtype) - self.level * (u < 0).to(u.dtype)

    def bend(self, u: Tensor) -> Tensor:
        return torch.zeros_like(u)
