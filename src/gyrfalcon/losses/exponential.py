"""The exponential loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import MarginLoss

_LEAST = -50.0  # the margin below which the loss is a parabola


@dataclass(frozen=True)
class Exponential(MarginLoss):
    """ℓ(f, y) = exp(-⟨f, y⟩), continued below a margin of -50 by the parabola that meets it there with two derivatives.

    The parabola keeps far-off trial steps finite. It is no part of any fit: the mean loss is 1 at f = 0 and falls from
    there, so no point of weight above e⁻⁵⁰ of the total has such a margin.

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Exponential().value(torch.tensor([[2.0]]), torch.tensor([[-1.0]]))
    tensor([7.3891], dtype=torch.float64)
    """

    name: ClassVar[str] = "exponential"
    native: ClassVar[str | None] = "exponential"

    def phi(self, u: Tensor) -> Tensor:
        beyond = (_LEAST - u).clamp(min=0)
        return self._capped(u) * (1 + beyond + beyond.square() / 2)

    def slope(self, u: Tensor) -> Tensor:
        return -self._capped(u) * (1 + (_LEAST - u).clamp(min=0))

    def bend(self, u: Tensor) -> Tensor:
        return self._capped(u)

    def log_odds(self, u: Tensor) -> Tensor:
        return u

    def _capped(self, u: Tensor) -> Tensor:
        return (-u).clamp(max=-_LEAST).exp()
