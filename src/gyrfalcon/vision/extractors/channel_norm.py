"""Layer normalization over the channels of maps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class ChannelNorm(nn.Module):
    """At each cell, channels minus their mean, over their deviation, times a weight, plus a bias."""

    def __init__(self, width: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        normed = functional.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, 1e-6)
        return normed.permute(0, 3, 1, 2)
