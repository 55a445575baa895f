"""One map of features for each image, in which cells can be compared: maps of all strides, normalized and reduced.

Nothing here is learned from the user's images, so a frame has the same features whatever was seen before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .extractors import Extractor, check_image
from .scenes import scene

Array = np.ndarray[Any, Any]

NORM = 20.0  # of the features of a cell, before they are reduced; the length scales of this room are relative to it
DIMENSIONS = 384  # features of a cell are reduced to so many; measured by `python -m benchmarks vision pixels`
LEADING = 128  # features that vary most, which regions are described by, besides the colors
COLORS = 3
STRIDE = 8  # of the cells, unless the extractor has no map that fine
CALIBRATION_SCENES = 2
CALIBRATION_STEP = 7  # every so many cells of a scene are looked at
COLOR = 3.0  # each channel of the mean color of a cell is a feature between minus and plus this
TINY = 1e-12


@dataclass(frozen=True)
class FeatureMap:
    """The features of an image's cells.

    Attributes
    ----------
    values : tensor of shape (dimensions, rows, columns), float32
    shape : tuple of int
        Height and width of the image in pixels.
    embedding : tensor of shape (256, rows, columns) or None
        From which SAM's decoder makes masks, if the extractor has it.
    """

    values: Tensor
    shape: tuple[int, int]
    embedding: Tensor | None = None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self.values.shape[1], self.values.shape[2]

    @property
    def leading(self) -> Tensor:
        """The features that vary most, and the colors: at most LEADING + COLORS maps."""
        if len(self.values) <= LEADING + COLORS:
            return self.values
        return torch.cat([self.values[:LEADING], self.values[-COLORS:]])

    def rows(self) -> Tensor:
        """One row of features for each cell, of shape (rows·columns, dimensions)."""
        return self.values.flatten(1).T.contiguous()


class Features:
    """Makes feature maps with an extractor.

    The features of each map are scaled to a length that is the same at every cell, and whose square is in proportion to
    the root of the number of channels: fine maps have fewer channels, and know of colors and textures, which deep ones
    are trained to forget. They are brought to one grid and, if they are more than `LEADING`, replaced by the
    `dimensions` directions in which the features of generated scenes vary most, those that vary more before the others.
    The mean color of each cell comes last.

    Parameters
    ----------
    net : Extractor
    dimensions : int
    """

    def __init__(self, net: Extractor, dimensions: int = DIMENSIONS):
        if not callable(net):
            raise TypeError(f"net must be a callable that returns maps of features by stride, got {net!r}")
        self.net, self.dimensions = net, dimensions
        self.directions: dict[int, Tensor] | None = None

    def __call__(self, image: Any) -> FeatureMap:
        pixels = check_image(image)
        returned = self.net(pixels)
        maps = check_maps(returned)
        if self.directions is None:
            self.directions = self._calibrate({stride: maps[stride].shape[0] for stride in maps})
        if {stride: tensor.shape[0] for stride, tensor in maps.items()} != {
            stride: matrix.shape[1] for stride, matrix in self.directions.items()
        }:
            raise ValueError("net returned maps of other strides or channels than before: an extractor is frozen")
        grid = maps[_grid_stride(maps)].shape[1:]
        with torch.inference_mode():
            total = torch.zeros(self._size, *grid)
            for stride, tensor in maps.items():
                total += _resampled(torch.einsum("pc,chw->phw", self.directions[stride], _normed(tensor)), grid)
            total = torch.cat([total, _colors(pixels, grid)])
        return FeatureMap(total, (pixels.shape[0], pixels.shape[1]), getattr(returned, "embedding", None))

    @property
    def _size(self) -> int:
        assert self.directions is not None
        return next(iter(self.directions.values())).shape[0]

    def _calibrate(self, channels: Mapping[int, int]) -> dict[int, Tensor]:
        """For each stride a matrix from its channels to the features, including the scale."""
        strides, total = list(channels), sum(channels.values())
        roots = sum(count**0.5 for count in channels.values())
        shares = {stride: (channels[stride] ** 0.5 / roots) ** 0.5 for stride in strides}
        if total <= min(LEADING, self.dimensions):
            directions = torch.eye(total)
        else:
            random, cells = np.random.default_rng(0), []
            for _ in range(CALIBRATION_SCENES):
                maps = check_maps(self.net(scene(random)))
                grid = maps[_grid_stride(maps)].shape[1:]
                joined = torch.cat([_resampled(shares[stride] * _normed(maps[stride]), grid) for stride in strides])
                cells.append(joined.flatten(1).T[::CALIBRATION_STEP].double())
            rows = torch.cat(cells)
            rows = rows - rows.mean(0)
            directions = torch.linalg.eigh(rows.T @ rows)[1].T.flip(0)[: self.dimensions].float()
        pieces = torch.split(directions, [channels[stride] for stride in strides], dim=1)
        return {stride: NORM * shares[stride] * piece for stride, piece in zip(strides, pieces, strict=True)}


def check_maps(maps: Any) -> dict[int, Tensor]:
    """What an extractor returned, as float32 tensors by increasing stride."""
    if not isinstance(maps, Mapping) or not maps:
        raise TypeError(f"net must return a mapping from strides to maps, got {type(maps).__name__}")
    found: dict[int, Tensor] = {}
    for stride in sorted(maps):
        tensor = torch.as_tensor(maps[stride]).detach().to(device="cpu", dtype=torch.float32)
        if tensor.ndim != 3 or tensor.numel() == 0:
            raise ValueError(
                f"net must return maps of shape (channels, rows, columns), got {tuple(tensor.shape)} at stride {stride}"
            )
        if not torch.isfinite(tensor).all():
            raise ValueError(f"net returned values that are not finite at stride {stride}")
        found[int(stride)] = tensor
    return found


def _grid_stride(maps: Mapping[int, Tensor]) -> int:
    """The finest stride that is not finer than `STRIDE`, or the coarsest of all."""
    return min((stride for stride in maps if stride >= STRIDE), default=max(maps))


def _normed(tensor: Tensor) -> Tensor:
    return functional.normalize(tensor, dim=0, eps=TINY)


def _colors(pixels: Array, grid: tuple[int, ...]) -> Tensor:
    """Mean colors of cells, of shape (3, rows, columns)."""
    channels = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
    mode = "area" if pixels.shape[0] >= grid[0] and pixels.shape[1] >= grid[1] else "bilinear"
    return COLOR * (functional.interpolate(channels, tuple(grid), mode=mode)[0] / 127.5 - 1)


def _resampled(tensor: Tensor, grid: tuple[int, ...]) -> Tensor:
    """On another grid: means of the cells of a finer one, interpolation of those of a coarser one."""
    if tuple(tensor.shape[1:]) == tuple(grid):
        return tensor
    finer = tensor.shape[1] > grid[0]
    mode = {"mode": "area"} if finer else {"mode": "bilinear", "align_corners": False}
    return functional.interpolate(tensor[None], tuple(grid), **mode)[0]
