"""What the page needs of a teacher and of a source of frames, and the marks that it hands from one to the other."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Found(Protocol):
    """An object that was found in a frame: its box is (left, top, right, bottom), its mask as large as the frame."""

    @property
    def label(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def box(self) -> Any: ...
    @property
    def mask(self) -> Any: ...


class Teacher(Protocol):
    """A model that learns from marked frames, such as `InstanceSegmenter`.

    `predict` answers with what `train` made last, also while `observe` and `train` are at work in another thread.
    """

    def observe(self, frame: Any, marks: Mapping[str, Any], /, *, ignore: Any = None) -> Hashable: ...
    def train(self) -> Any: ...
    def predict(self, frame: Any, /) -> Sequence[Found]: ...
    def add_class(self, name: str, /) -> Any: ...
    def forget(self, frame_id: Any, /) -> Any: ...
    def save(self, path: Path, /) -> Any: ...


class Frames(Protocol):
    """Frames that can be read in any order, as arrays (height, width, 3) of bytes."""

    def __len__(self) -> int: ...
    def read(self, index: int) -> Array: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Mark:
    """An object in a frame: its class, and a box or a mask as a PNG file.

    `kept` ones were found and said to be right. `open` ones were found and not judged: they teach nothing, and what is
    in their box is not taken for background.
    """

    label: str
    box: tuple[float, float, float, float] | None = None
    mask: bytes | None = None
    kept: bool = False
    open: bool = False
