"""Batch normalizations, folded into the convolutions before them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def fold(state: Mapping[str, Tensor], convolution: str, norm: str, epsilon: float) -> dict[str, Tensor]:
    """Weights in which each pair `<name><convolution>weight`, `<name><norm>...` has become one convolution `<name>.`.

    A convolution W followed by (x - mean)/√(variance + ε)·γ + β is the convolution Wγ/√(variance + ε) with the bias
    β - γ·mean/√(variance + ε).
    """
    folded: dict[str, Tensor] = {}
    for key, tensor in state.items():
        if norm in key:
            continue
        if not key.endswith(f"{convolution}weight"):
            folded[key] = tensor
            continue
        name = key.removesuffix(f"{convolution}weight")
        part = {which: state[f"{name}{norm}{which}"] for which in ("weight", "bias", "running_mean", "running_var")}
        gain = part["weight"] / torch.sqrt(part["running_var"] + epsilon)
        folded[f"{name}.weight"] = tensor * gain[:, None, None, None]
        folded[f"{name}.bias"] = part["bias"] - part["running_mean"] * gain
    return folded
