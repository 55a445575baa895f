"""TinyViT, the image encoder of MobileSAM, in plain PyTorch and for images of any shape.

K. Wu et al., "TinyViT: Fast Pretraining Distillation for Small Vision Transformers", 2022; C. Zhang et al., "Faster
Segment Anything", 2023. Names of the parts follow the published weights, with every batch normalization folded into
the convolution before it. SAM pads images to a square. Here every layer takes rectangles, so there is no padding that
could be sampled by mistake, nor is time spent on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from .channel_norm import ChannelNorm
from .folding import fold
from .protocol import Array, EncodedMaps, check_size, prepare

DIMENSIONS = (64, 128, 160, 320)
DEPTHS = (2, 2, 6, 2)
HEADS = (2, 4, 5, 10)
WINDOWS = (7, 7, 14, 7)
NECK = 256
MULTIPLE = 16
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


class _Convolutions(nn.Module):
    """The inverted bottleneck of the first stage."""

    def __init__(self, width: int):
        super().__init__()
        wide = 4 * width
        self.conv1 = nn.Conv2d(width, wide, 1)
        self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, groups=wide)
        self.conv3 = nn.Conv2d(wide, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.gelu(self.conv2(functional.gelu(self.conv1(x))))
        return functional.gelu(x + self.conv3(inner))


class _Merging(nn.Module):
    """From one stage to the next: more channels and, but for the last stage, half the rows and columns."""

    def __init__(self, width: int, out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 1)
        self.conv2 = nn.Conv2d(out, out, 3, stride, 1, groups=out)
        self.conv3 = nn.Conv2d(out, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv3(functional.gelu(self.conv2(functional.gelu(self.conv1(x)))))
        return y


class _Attention(nn.Module):
    """Attention within windows, with a learned bias for each offset."""

    attention_bias_idxs: Tensor

    def __init__(self, width: int, heads: int, window: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        offsets: dict[tuple[int, int], int] = {}
        places = list(itertools.product(range(window), range(window)))
        index = [
            offsets.setdefault((abs(a - c), abs(b - d)), len(offsets))
            for (a, b), (c, d) in itertools.product(places, places)
        ]
        self.register_buffer("attention_bias_idxs", torch.tensor(index).view(window**2, window**2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        windows, cells, width = x.shape
        parts: Tensor = self.qkv(self.norm(x)).view(windows, cells, self.heads, 3, width // self.heads)
        q, k, v = parts.permute(3, 0, 2, 1, 4)
        bias = self.attention_biases[:, self.attention_bias_idxs]
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(windows, -1, -1, -1))
        y: Tensor = self.proj(mixed.transpose(1, 2).reshape(windows, cells, width))
        return y


class _Mlp(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc2(functional.gelu(self.fc1(self.norm(x))))
        return y


class _Block(nn.Module):
    """Attention in windows, a local convolution and an MLP."""

    def __init__(self, width: int, heads: int, window: int):
        super().__init__()
        self.window = window
        self.attn = _Attention(width, heads, window)
        self.local_conv = nn.Conv2d(width, width, 3, 1, 1, groups=width)
        self.mlp = _Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.local_conv(x)
        y: Tensor = x + self.mlp(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y

    def _attend(self, x: Tensor) -> Tensor:
        """Of cells in the last dimension; windows that reach over the edge see zeros there."""
        batch, height, width, channels = x.shape
        side = self.window
        x = functional.pad(x, (0, 0, 0, -width % side, 0, -height % side))
        rows, columns = x.shape[1] // side, x.shape[2] // side
        cut = x.view(batch, rows, side, columns, side, channels).transpose(2, 3)
        mixed = self.attn(cut.reshape(-1, side * side, channels))
        joined = mixed.view(batch, rows, columns, side, side, channels).transpose(2, 3)
        whole: Tensor = joined.reshape(batch, rows * side, columns * side, channels)
        return whole[:, :height, :width]


class _Stage(nn.Module):
    def __init__(self, place: int):
        super().__init__()
        width = DIMENSIONS[place]
        blocks = [
            _Block(width, HEADS[place], WINDOWS[place]) if place else _Convolutions(width) for _ in range(DEPTHS[place])
        ]
        self.blocks = nn.ModuleList(blocks)
        if place + 1 < len(DIMENSIONS):
            self.downsample: nn.Module | None = _Merging(width, DIMENSIONS[place + 1], 1 if place == 2 else 2)
        else:
            self.downsample = None


class TinyViT(nn.Module):
    """The encoder: maps of 64 channels at stride 4, of 128 at 8, and of 160 + 320 + 256 at 16.

    The parts of the map at stride 16 are the last two stages and the neck, each scaled to length one at each cell.

    Parameters
    ----------
    state : mapping of str to tensor
        Weights by their published names, without the prefix `image_encoder.`.
    size : int
        How many pixels the longest side of an image is resized to; a multiple of 16.
    """

    strides = (4, 8, 16)

    def __init__(self, state: Mapping[str, Tensor], size: int = 512):
        super().__init__()
        self.name, self.size = "tiny-vit", check_size(size, MULTIPLE)
        stem = (
            nn.Conv2d(3, DIMENSIONS[0] // 2, 3, 2, 1),
            nn.GELU(),
            nn.Conv2d(DIMENSIONS[0] // 2, DIMENSIONS[0], 3, 2, 1),
        )
        self.patch_embed = nn.ModuleDict({"seq": nn.Sequential(*stem)})
        self.layers = nn.ModuleList(_Stage(place) for place in range(len(DIMENSIONS)))
        self.neck = nn.Sequential(
            nn.Conv2d(DIMENSIONS[-1], NECK, 1, bias=False),
            ChannelNorm(NECK),
            nn.Conv2d(NECK, NECK, 3, padding=1, bias=False),
            ChannelNorm(NECK),
        )
        wanted = {name: tensor for name, tensor in state.items() if not name.startswith(("norm_head.", "head."))}
        self.load_state_dict(fold(wanted, ".c.", ".bn.", 1e-5))
        self.register_buffer("mean", torch.tensor(MEAN), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION), persistent=False)
        self.eval().requires_grad_(False)

    def __call__(self, image: Array) -> EncodedMaps:
        """Maps of features by stride, see `Extractor`, and what SAM's decoder needs."""
        with torch.inference_mode():
            return self.forward(image)

    def forward(self, image: Array) -> EncodedMaps:
        mean, deviation = self.get_buffer("mean"), self.get_buffer("deviation")
        x = self.patch_embed["seq"](prepare(image, self.size, MULTIPLE, mean, deviation))
        ends: list[Tensor] = []
        for stage in self.layers:
            assert isinstance(stage, _Stage)
            for block in stage.blocks:
                x = block(x)
            ends.append(x[0])
            x = x if stage.downsample is None else stage.downsample(x)
        embedding = self.neck(x)[0]
        parts = (functional.normalize(part, dim=0) for part in (ends[2], ends[3], embedding))
        return EncodedMaps({4: ends[0], 8: ends[1], 16: torch.cat(list(parts))}, embedding)
