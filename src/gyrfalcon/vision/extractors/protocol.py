"""What an extractor of features is, and how an image is prepared for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Array = np.ndarray[Any, Any]
Maps = Mapping[int, Any]

LARGEST_SIDE = 16_384  # pixels; larger images are refused before anything is computed from them


@runtime_checkable
class Extractor(Protocol):
    """A frozen function of an image: it returns maps of features by stride.

    An image is an array of shape (height, width, 3) of uint8 in RGB order. A map is an array or tensor of shape
    (channels, rows, columns), and it covers the whole image and nothing else: its cell (i, j) belongs to the part of
    the image between i/rows and (i + 1)/rows of the height and between j/columns and (j + 1)/columns of the width.
    The stride says how many pixels of the image that the network has seen are one cell, and orders the maps.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import vision
    >>> def colors(image):
    ...     return {8: image[4::8, 4::8].transpose(2, 0, 1) / 255.0}
    >>> isinstance(colors, vision.Extractor), colors(np.zeros((48, 64, 3), dtype=np.uint8))[8].shape
    (True, (3, 6, 8))
    """

    def __call__(self, image: Array) -> Maps: ...


class EncodedMaps(dict[int, Tensor]):
    """Maps by stride, and the map from which SAM's decoder makes masks."""

    def __init__(self, maps: Mapping[int, Tensor], embedding: Tensor):
        super().__init__(maps)
        self.embedding = embedding


def check_image(image: Any, name: str = "image") -> Array:
    """An image as contiguous uint8 in RGB; anything else is refused."""
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(
            f"{name} must be an array of uint8 of shape (height, width, 3), got {pixels.dtype} of shape "
            f"{pixels.shape}: convert it, for example with PIL.Image.convert('RGB')"
        )
    if not all(1 <= side <= LARGEST_SIDE for side in pixels.shape[:2]):
        raise ValueError(f"{name} has shape {pixels.shape}: sides must have 1 to {LARGEST_SIDE:,} pixels")
    return np.ascontiguousarray(pixels)


def fit_size(shape: tuple[int, int], longest: int, multiple: int) -> tuple[int, int]:
    """Height and width, multiples of a number, with that longest side and nearly the proportions of a shape.

    Maps of every stride that divides the multiple then cover the image exactly, without padding.
    """
    scale = longest / max(shape)
    height, width = (max(multiple, round(side * scale / multiple) * multiple) for side in shape)
    return height, width


def prepare(image: Array, longest: int, multiple: int, mean: Tensor, deviation: Tensor) -> Tensor:
    """The image as a batch of one, resized and normalized."""
    pixels = torch.from_numpy(check_image(image)).permute(2, 0, 1)[None].float()
    size = fit_size((image.shape[0], image.shape[1]), longest, multiple)
    if size != tuple(pixels.shape[2:]):
        pixels = functional.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=True)
    return (pixels - mean[:, None, None]) / deviation[:, None, None]


def check_size(size: Any, multiple: int) -> int:
    """A longest side that the network takes."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < multiple or size % multiple:
        raise ValueError(f"size must be a multiple of {multiple}, got {size!r}")
    return int(size)
