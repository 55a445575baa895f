"""Frames from videos, pictures and folders of pictures, and videos of frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from .extractors.protocol import LARGEST_SIDE, check_image
from .finding import Found

Array = np.ndarray[Any, Any]

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")  # of their content, which may be another than the name says: EPS runs programs
LARGEST_PICTURE = 64 << 20  # pixels; larger pictures are refused before they are decoded
SHADE = 0.5  # how much of the color of an instance is laid over the frame
COLORS = ((230, 60, 60), (60, 130, 230), (60, 180, 90), (240, 170, 40), (150, 90, 210), (30, 180, 190))


def read_frames(path: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    """Names and frames of a video, of a picture, or of the pictures in a folder, in the order of their names.

    Parameters
    ----------
    path : path of a video that FFmpeg reads, of a picture, or of a folder

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from PIL import Image
    >>> from gyrfalcon import vision
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.fromarray(np.zeros((4, 6, 3), dtype=np.uint8)).save(f"{folder}/black.png")
    ...     [(name, frame.shape) for name, frame in vision.read_frames(folder)]
    [('black.png', (4, 6, 3))]
    """
    source = Path(path)
    if source.is_dir():
        found = sorted(file for file in source.iterdir() if file.suffix.lower() in PICTURES)
        if not found:
            raise ValueError(f"{source} has no pictures ({', '.join(PICTURES)})")
        for file in found:
            yield file.name, _picture(file)
    elif not source.is_file():
        raise FileNotFoundError(f"{source}: no such file or folder")
    elif source.suffix.lower() in PICTURES:
        yield source.name, _picture(source)
    else:
        yield from _video(source)


def _picture(file: Path) -> Array:
    from PIL import Image

    with Image.open(file, formats=FORMATS) as picture:
        if picture.width * picture.height > LARGEST_PICTURE or max(picture.size) > LARGEST_SIDE:
            raise ValueError(f"{file} has {picture.width} × {picture.height} pixels: make it smaller")
        return np.array(picture.convert("RGB"))


def _video(file: Path) -> Iterator[tuple[str, Array]]:
    av = _av()
    try:
        with av.open(str(file)) as container:
            if not container.streams.video:
                raise ValueError(f"{file} has no video")
            stream = container.streams.video[0]
            if stream.width * stream.height > LARGEST_PICTURE:
                raise ValueError(f"{file} has frames of {stream.width} × {stream.height} pixels: make it smaller")
            for number, frame in enumerate(container.decode(stream)):
                yield f"{file.stem}_{number:06d}", np.asarray(frame.to_ndarray(format="rgb24"))
    except av.FFmpegError as error:
        raise ValueError(f"{file} is not a video that can be read: {error}") from error


class VideoWriter:
    """Writes frames to a video file.

    Parameters
    ----------
    path : path, such as "masks.mp4"
    rate : float
        Frames a second.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from gyrfalcon import vision
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with vision.VideoWriter(f"{folder}/clip.mp4", rate=10) as clip:
    ...         for shade in (0, 120, 240):
    ...             clip.write(np.full((48, 64, 3), shade, dtype=np.uint8))
    ...     [frame.shape for _, frame in vision.read_frames(f"{folder}/clip.mp4")]
    [(48, 64, 3), (48, 64, 3), (48, 64, 3)]
    """

    def __init__(self, path: str | os.PathLike[str], rate: float = 25.0):
        if not 0 < rate <= 1000:
            raise ValueError(f"rate must be above 0 and at most 1000 frames a second, got {rate!r}")
        self._container = _av().open(str(path), "w")
        self._rate = Fraction(rate).limit_denominator(1000)
        self._stream: Any = None

    def write(self, frame: Any) -> None:
        """Add a frame; an odd last row or column is left out, which the format asks for."""
        pixels = check_image(frame, "frame")
        pixels = pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2]
        if self._stream is None:
            self._stream = self._container.add_stream("libx264", rate=self._rate)
            self._stream.height, self._stream.width = pixels.shape[:2]
            self._stream.pix_fmt = "yuv420p"
        if (self._stream.height, self._stream.width) != pixels.shape[:2]:
            raise ValueError(f"frame has shape {pixels.shape}, but the first had another: a video has one")
        made = _av().VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        self._container.mux(self._stream.encode(made))

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._stream is not None:
            self._container.mux(self._stream.encode())
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def draw(frame: Any, found: Sequence[Found], classes: Iterable[str]) -> Array:
    """The frame with the masks of what was found in colors, one for each class, and their boxes.

    Parameters
    ----------
    frame : array of uint8 of shape (height, width, 3)
    found : list of Found
    classes : list of str
        All classes, which gives each its color.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import vision
    >>> mask = np.zeros((4, 6), dtype=bool)
    >>> mask[1:3, 1:4] = True
    >>> found = [vision.Found("mug", 0.9, np.array([1, 1, 4, 3]), mask)]
    >>> vision.draw(np.zeros((4, 6, 3), dtype=np.uint8), found, ["mug"]).max() > 0
    np.True_
    """
    picture = check_image(frame, "frame").copy()
    places = {label: place for place, label in enumerate(classes)}
    for one in reversed(found):
        color = np.array(COLORS[places[one.label] % len(COLORS)])
        picture[one.mask] = ((1 - SHADE) * picture[one.mask] + SHADE * color).astype(np.uint8)
        left, top, right, bottom = np.rint(one.box).astype(int)
        right, bottom = min(right, picture.shape[1]) - 1, min(bottom, picture.shape[0]) - 1
        picture[top : bottom + 1, [left, right]] = color
        picture[[top, bottom], left : right + 1] = color
    return picture


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise ImportError("videos are read and written with PyAV: pip install 'gyrfalcon[vision]'") from error
    return av
