"""The softmax loss, also called cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Loss


@dataclass(frozen=True)
class Softmax(Loss):
    """ℓ(f, y) = -Σₖ yₖ log(exp(fₖ) / Σⱼ exp(fⱼ)), y one-hot or any probabilities.

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.Softmax().value(torch.tensor([[1.0, 1.0, 1.0]]), torch.tensor([[0.0, 1.0, 0.0]]))
    tensor([1.0986], dtype=torch.float64)
    """

    name: ClassVar[str] = "softmax"
    relative: ClassVar[bool] = True
    native: ClassVar[str | None] = "softmax"

    def value(self, F: Tensor, Y: Tensor) -> Tensor:
        return -(torch.log_softmax(F.double(), 1) * Y.double()).sum(1)

    def gradient(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.probabilities(F) - Y.double()

    def hessian_product(self, F: Tensor, Y: Tensor, V: Tensor) -> Tensor:
        V = V.double()
        return self.hessian_at(F, Y, like=V)(V)

    def hessian_at(self, F: Tensor, Y: Tensor, *, like: Tensor) -> Callable[[Tensor], Tensor]:
        wide = self.probabilities(F)
        P, likeliest = torch.empty_like(like).copy_(wide), wide.argmax(1, keepdim=True)

        def product(V: Tensor) -> Tensor:
            # A constant added to V changes nothing. This one leaves a mean without large terms, and so no cancellation.
            weighted = (V - V.gather(1, likeliest)).mul_(P)
            return weighted.addcmul_(P, weighted.sum(1, keepdim=True), value=-1)

        return product

    def curvature(self, F: Tensor, Y: Tensor) -> Tensor:
        P = self.probabilities(F)
        return (P * (1 - P)).mean(1, keepdim=True)

    def probabilities(self, F: Tensor) -> Tensor:
        """Of each class, of shape (n, t)."""
        return torch.softmax(F.double(), 1)

    def check_targets(self, Y: Tensor) -> None:
        ones = torch.ones(len(Y), dtype=torch.float64, device=Y.device)
        if bool((Y < 0).any()) or not torch.allclose(Y.double().sum(1), ones):
            raise ValueError(
                "Y must hold rows of probabilities for the softmax loss: encode classes with gyrfalcon.losses.OneHot"
            )
