"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .base import MarginLoss


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """ℓ(f, y) = log(1 + exp(-⟨f, y⟩)).

    >>> import torch, gyrfalcon.losses as gl
    >>> F, Y = torch.tensor([[0.0], [-1e6]]), torch.tensor([[1.0], [1.0]])
    >>> gl.Logistic().value(F, Y).numpy().round(4)
    array([6.931e-01, 1.000e+06])
    >>> gl.Logistic().probabilities(F)
    tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "logistic"
    native: ClassVar[str | None] = "logistic"

    def phi(self, u: Tensor) -> Tensor:
        return -logsigmoid(u)

    def slope(self, u: Tensor) -> Tensor:
        return -torch.sigmoid(-u)

    def bend(self, u: Tensor) -> Tensor:
        return torch.sigmoid(u) * torch.sigmoid(-u)

    def log_odds(self, u: Tensor) -> Tensor:
        return -logsigmoid(-u)
