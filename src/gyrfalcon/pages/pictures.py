"""Pictures from a browser and for it. Their size is known, and refused if it is too large, before they are decoded."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from .wire import RequestError

Array = np.ndarray[Any, Any]

MOST_PIXELS = 1 << 22  # of a picture from a browser: 2048 × 2048
MOST_SCANS = 64  # of a progressive JPEG: each is a pass over all pixels
QUALITY = 85  # of JPEGs for the browser


class PictureError(RequestError):
    """A picture that is refused: not an image, too large, or of another size than the frame it belongs to."""


def decode_picture(data: bytes, most_pixels: int = MOST_PIXELS) -> Array:
    """A JPEG or PNG as an array (height, width, 3) of bytes.

    >>> picture = np.zeros((4, 6, 3), dtype=np.uint8)
    >>> decode_picture(encode_picture(picture)).shape
    (4, 6, 3)
    >>> decode_picture(b"not a picture")
    Traceback (most recent call last):
    ...
    gyrfalcon.pages.pictures.PictureError: the picture is not a JPEG or PNG file
    """
    return np.array(_open(data, most_pixels, ("JPEG", "PNG")).convert("RGB"))


def decode_mask(data: bytes, size: tuple[int, int]) -> Array:
    """A PNG of the size (height, width) as a boolean array: what is not transparent.

    >>> mask = np.eye(5, 7, dtype=bool)
    >>> bool((decode_mask(encode_mask(mask), (5, 7)) == mask).all())
    True
    """
    image = _open(data, size[0] * size[1], ("PNG",))
    if image.size != (size[1], size[0]):
        raise PictureError(f"the mask has {image.size} pixels, and its frame has {(size[1], size[0])}")
    return np.asarray(image.convert("RGBA").getchannel("A")) > 127


def encode_picture(picture: Array, quality: int = QUALITY) -> bytes:
    """An array of bytes (height, width, 3) as a JPEG; from 90 on, colors are as sharp as light."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(
        file, "JPEG", quality=quality, subsampling=0 if quality >= 90 else 2
    )
    return file.getvalue()


def encode_mask(mask: Array) -> bytes:
    """A boolean array as a PNG of one bit a pixel, transparent where it is False."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(mask, dtype=np.uint8))
    image = image.convert("P")
    image.putpalette([255, 255, 255] * 2)
    file = io.BytesIO()
    image.save(file, "PNG", bits=1, transparency=bytes((0, 255)), compress_level=3)
    return file.getvalue()


def _open(data: bytes, most_pixels: int, formats: tuple[str, ...]) -> Any:
    """The image with its pixels read, once its header has said that they are few enough."""
    from PIL import Image

    names = " or ".join(formats)
    try:
        image = Image.open(io.BytesIO(data), formats=formats)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureError(f"the picture has more than {most_pixels} pixels") from None
    except Exception:  # files that are made to break a decoder break it in many ways
        raise PictureError(f"the picture is not a {names} file") from None
    width, height = image.size
    if width * height > most_pixels:
        raise PictureError(f"the picture has {width} × {height} pixels, and may have {most_pixels} in all")
    if image.format != "PNG" and data.count(b"\xff\xda") > MOST_SCANS:
        raise PictureError(f"the picture has more than {MOST_SCANS} scans: save it as a baseline JPEG")
    try:
        image.load()
    except Exception:
        raise PictureError(f"the picture is a damaged {image.format} file") from None
    return image
