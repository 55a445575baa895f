"""Films of pictures, with PyAV."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.data.atomic import replacing


def write_video(path: str | os.PathLike[str], pictures: Iterable[Array], fps: int = 25) -> None:
    """Write pictures of numbers from 0 to 1 as an H.264 film, completely or not at all; odd edges are cut."""
    if Path(path).suffix.lower() != ".mp4":
        raise ValueError(f"path={os.fspath(path)!r} must end in .mp4")
    if fps < 1:
        raise ValueError(f"fps={fps!r} must be at least one")
    av = _package()
    with replacing(Path(path)) as temporary, av.open(str(temporary), "w", format="mp4") as film:
        stream = None
        for picture in pictures:
            height, width = (length // 2 * 2 for length in picture.shape[:2])
            if min(height, width) == 0:
                raise ValueError(f"shape={picture.shape[:2]} is too small for a film")
            if stream is None:
                stream = film.add_stream("libx264", rate=fps)
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            frame = np.ascontiguousarray((picture[:height, :width] * 255).round().astype(np.uint8))
            film.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        if stream is None:
            raise ValueError("frames: there are none: give at least one pose")
        film.mux(stream.encode())


def _package() -> Any:
    try:
        import av
    except ImportError as error:
        raise ImportError("films need PyAV: pip install 'gyrfalcon[fields]'") from error
    return av
