"""The logistic loss of rows that have several labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .base import Loss


@dataclass(frozen=True)
class MultilabelLogistic(Loss):
    """ℓ(f, y) = Σₖ log(1 + exp(-fₖ yₖ)): the logistic loss of each output, for labels that are there (1) or not (-1).

    >>> import torch, gyrfalcon.losses as gl
    >>> gl.MultilabelLogistic().value(torch.zeros(1, 3), torch.tensor([[1.0, -1.0, 1.0]]))
    tensor([2.0794], dtype=torch.float64)
    """

    name: ClassVar[str] = "multilabel_logistic"

    def value(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.by_output(F, Y).sum(1)

    def by_output(self, F: Tensor, Y: Tensor) -> Tensor:
        return -logsigmoid(F.double() * Y.double())

    def gradient(self, F: Tensor, Y: Tensor) -> Tensor:
        return -torch.sigmoid(-F.double() * Y.double()) * Y.double()

    def hessian_product(self, F: Tensor, Y: Tensor, V: Tensor) -> Tensor:
        return self._bend(F) * V.double()

    def curvature(self, F: Tensor, Y: Tensor) -> Tensor:
        return self._bend(F).mean(1, keepdim=True)

    def _bend(self, F: Tensor) -> Tensor:
        return torch.sigmoid(F.double()) * torch.sigmoid(-F.double())

    def probabilities(self, F: Tensor) -> Tensor:
        """Of each label, of shape (n, t)."""
        return torch.sigmoid(F.double())

    def check_targets(self, Y: Tensor) -> None:
        if not bool((Y.abs() == 1).all()):
            raise ValueError(f"Y must hold 1 where a label is there and -1 where it is not, for the {self.name} loss")
