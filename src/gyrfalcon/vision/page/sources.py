"""Frames of a clip or of a folder of pictures, read in any order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..clips import FORMATS, LARGEST_PICTURE, PICTURES
from .protocols import Frames

Array = np.ndarray[Any, Any]

LONGEST_SIDE = 960  # pixels of a frame that is shown and taught


def open_source(source: str | Path) -> Frames | None:
    """The frames of a clip or of a folder; None for "camera", whose frames come from the browser."""
    if str(source) == "camera":
        return None
    path = Path(source)
    if path.is_dir():
        return Folder(path)
    if path.is_file():
        return Clip(path)
    raise ValueError(f"source={str(source)!r} is neither 'camera' nor a clip nor a folder of pictures")


class Folder:
    """The pictures of a folder, in the order of their names."""

    def __init__(self, path: Path):
        self._files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)
        if not self._files:
            raise ValueError(f"{path} holds no pictures ({', '.join(PICTURES)})")

    def __len__(self) -> int:
        return len(self._files)

    def read(self, index: int) -> Array:
        from PIL import Image, ImageOps

        with Image.open(self._files[index], formats=FORMATS) as image:
            if image.width * image.height > LARGEST_PICTURE:
                raise ValueError(f"{self._files[index]} has {image.width} × {image.height} pixels: make it smaller")
            upright = ImageOps.exif_transpose(image).convert("RGB")
        upright.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        return np.array(upright)

    def close(self) -> None:
        pass


class Clip:
    """The frames of a video. Reading on is quick; reading elsewhere starts at the key frame before."""

    def __init__(self, path: Path):
        import av

        self._path, self._lock = path, threading.Lock()
        try:
            self._container = av.open(str(path))
            self._stream = self._container.streams.video[0]
            times = [packet.pts for packet in self._container.demux(self._stream) if packet.pts is not None]
        except (av.FFmpegError, IndexError) as error:
            raise ValueError(f"{path} is no video that can be read: {error}") from None
        if not times:
            raise ValueError(f"{path} has no frames")
        self._times = sorted(times)
        self._decoded: Iterator[Any] = iter(())
        self._next = -1  # the index of the frame that comes next from `_decoded`

    def __len__(self) -> int:
        return len(self._times)

    def read(self, index: int) -> Array:
        time = self._times[index]
        with self._lock:
            if index != self._next:
                self._container.seek(time, stream=self._stream)
                self._decoded = self._container.decode(self._stream)
            for frame in self._decoded:
                if frame.pts is not None and frame.pts >= time:
                    self._next = index + 1
                    return self._small(frame)
            self._next = -1
        raise ValueError(f"frame {index} of {self._path} cannot be decoded")

    def close(self) -> None:
        with self._lock:
            self._container.close()

    @staticmethod
    def _small(frame: Any) -> Array:
        scale = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
        width, height = round(frame.width * scale), round(frame.height * scale)
        picture: Array = frame.to_ndarray(format="rgb24", width=width, height=height)
        return picture
