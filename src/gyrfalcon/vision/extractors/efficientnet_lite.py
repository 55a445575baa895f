"""EfficientNet-Lite0, a small convolutional network trained on ImageNet, in plain PyTorch.

M. Tan and Q. Le, "EfficientNet", 2019, in the variant without squeeze-and-excitation and with ReLU6. Names of the
parts follow the published weights, with every batch normalization folded into the convolution before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from .folding import fold
from .protocol import Array, check_size, prepare

# Repeats, kernel, stride of the first, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM = 32
ENDS = {0: 2, 2: 4, 4: 8, 10: 16, 15: 32}  # the last block of each stride
MULTIPLE = 32
EPSILON = 1e-3
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def _same(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """TensorFlow's padding: what is missing goes to the right and to the bottom."""
    kernel, stride = convolution.kernel_size[0], convolution.stride[0]
    missing = kernel - stride if stride > 1 else kernel - 1
    before = missing // 2
    after = missing - before
    y: Tensor = convolution(functional.pad(x, (before, after, before, after)))
    return y


class _Block(nn.Module):
    def __init__(self, width: int, out: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        wide = width * expansion
        self._expand_conv = nn.Conv2d(width, wide, 1) if expansion > 1 else None
        self._depthwise_conv = nn.Conv2d(wide, wide, kernel, stride, groups=wide)
        self._project_conv = nn.Conv2d(wide, out, 1)
        self.residual = stride == 1 and width == out

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self._expand_conv is None else functional.relu6(self._expand_conv(x))
        y: Tensor = self._project_conv(functional.relu6(_same(wide, self._depthwise_conv)))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """Maps of 16 channels at stride 2, 24 at 4, 40 at 8, 112 at 16 and 320 at 32.

    Parameters
    ----------
    state : mapping of str to tensor
        Weights by their published names.
    size : int
        How many pixels the longest side of an image is resized to; a multiple of 32.
    """

    strides = (2, 4, 8, 16, 32)

    def __init__(self, state: Mapping[str, Tensor], size: int = 512):
        super().__init__()
        self.name, self.size = "efficientnet-lite0", check_size(size, MULTIPLE)
        self._conv_stem = nn.Conv2d(3, STEM, 3, 2)
        blocks, width = [], STEM
        for repeats, kernel, stride, expansion, out in STAGES:
            for place in range(repeats):
                blocks.append(_Block(width, out, kernel, stride if place == 0 else 1, expansion))
                width = out
        self._blocks = nn.ModuleList(blocks)
        self.load_state_dict(_folded(state))
        self.register_buffer("mean", torch.tensor(MEAN), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION), persistent=False)
        self.eval().requires_grad_(False)

    def __call__(self, image: Array) -> dict[int, Tensor]:
        """Maps of features by stride; see `Extractor`."""
        with torch.inference_mode():
            return self.forward(image)

    def forward(self, image: Array) -> dict[int, Tensor]:
        mean, deviation = self.get_buffer("mean"), self.get_buffer("deviation")
        x = functional.relu6(_same(prepare(image, self.size, MULTIPLE, mean, deviation), self._conv_stem))
        maps: dict[int, Tensor] = {}
        for place, block in enumerate(self._blocks):
            x = block(x)
            if place in ENDS:
                maps[ENDS[place]] = x[0]
        return maps


def _folded(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Published names say `_bn0`, `_bn1` and `_bn2` for the norms after the three convolutions of a block."""
    pairs = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2", "_conv_stem": "_bn0"}
    renamed: dict[str, Tensor] = {}
    for key, tensor in state.items():
        if key.startswith(("_conv_head.", "_bn1.", "_fc.")):
            continue
        owner, _, leaf = key.rpartition(".")
        prefix, _, part = owner.rpartition(".")
        dot = "." if prefix else ""
        if part in pairs:
            renamed[f"{prefix}{dot}{part}.c.{leaf}"] = tensor
            continue
        block = {norm: name for name, norm in pairs.items() if (name == "_conv_stem") == (prefix == "")}
        renamed[f"{prefix}{dot}{block[part]}.bn.{leaf}"] = tensor
    return fold(renamed, ".c.", ".bn.", EPSILON)
