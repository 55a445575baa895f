"""What the worker of the teaching page does: it looks at frames and teaches, on two lanes at once.

The lane "work" changes the teacher, and the lane "look" asks it. Until `train` has replaced the model, in one
assignment, the one of before answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.pages import decode_mask, decode_picture, encode_mask, encode_picture

from .protocols import Found, Frames, Mark, Teacher
from .sources import open_source

Array = np.ndarray[Any, Any]
Picture = bytes | int  # a file from the browser, or the index of a frame of the source

MOST_SHOWN = 40  # objects of one frame


@dataclass(frozen=True)
class Answer:
    """What was found in a frame. Masks are cropped to their corner and size, and are PNG files of one bit a pixel."""

    size: tuple[int, int]
    found: list[dict[str, Any]]
    masks: list[bytes]
    seconds: float
    version: int
    picture: bytes | None = None


@dataclass(frozen=True)
class Taught:
    """A frame that was observed: its number, and how well its marks were found before it was taught."""

    frame_id: Hashable
    overlaps: list[float] = field(default_factory=list)


class Lesson:
    """A teacher and a source of frames."""

    def __init__(self, teacher: Teacher, frames: Frames | None = None, trained: bool = False):
        self._teacher, self._frames = teacher, frames
        self._trained, self._version = trained, int(trained)
        self._taught_labels: set[str] = set()
        self._known_labels = frozenset(self.facts()["classes"] if trained else ())

    def facts(self) -> dict[str, Any]:
        """What the page has to know at the start."""
        frames = 0 if self._frames is None else len(self._frames)
        return {"classes": list(getattr(self._teacher, "classes_", ())), "frames": frames, "version": self._version}

    def look(self, picture: Picture) -> Answer:
        """What the model that was trained last finds."""
        frame = self._read(picture)
        began = time.perf_counter()
        found = list(self._teacher.predict(frame))[:MOST_SHOWN] if self._trained else []
        seconds = time.perf_counter() - began
        described, masks = [], []
        for thing in found:
            left, top, mask = _cropped(np.asarray(thing.mask, dtype=bool))
            masks.append(encode_mask(mask))
            described.append(
                {
                    "label": str(thing.label),
                    "score": round(float(thing.score), 4),
                    "box": [round(float(edge), 1) for edge in thing.box],
                    "corner": [left, top],
                    "empty": not bool(mask.any()),
                }
            )
        shown = encode_picture(frame) if isinstance(picture, int) else None
        size = (frame.shape[1], frame.shape[0])
        return Answer(size, described, masks, seconds, self._version, shown)

    def observe(self, picture: Picture, marks: Sequence[Mark]) -> Taught:
        """Teach a frame. Drawn marks of classes that the model knows test it first."""
        frame = self._read(picture)
        decoded = [(mark, _decoded(mark, frame.shape[:2])) for mark in marks if not mark.open]
        drawn = [(mark.label, shape) for mark, shape in decoded if not mark.kept and mark.label in self._known_labels]
        overlaps = []
        if self._trained and drawn:
            found = self._teacher.predict(frame)
            overlaps = [_best_overlap(label, shape, found) for label, shape in drawn]
        by_label: dict[str, list[Array]] = {}
        for mark, shape in decoded:
            by_label.setdefault(mark.label, []).append(shape)
        ignored = _boxed([mark for mark in marks if mark.open], frame.shape[:2])
        frame_id = self._teacher.observe(frame, by_label, ignore=ignored)
        self._taught_labels |= by_label.keys()
        return Taught(frame_id, overlaps)

    def train(self) -> float:
        """Train, and let the new model answer; returns the seconds that it took."""
        began = time.perf_counter()
        self._teacher.train()
        seconds = time.perf_counter() - began
        self._trained, self._version = True, self._version + 1
        self._known_labels |= self._taught_labels
        return seconds

    def forget(self, frame_id: Hashable) -> None:
        self._teacher.forget(frame_id)

    def clear(self) -> None:
        """Find nothing from now on: everything that was taught has been forgotten."""
        self._trained, self._version = False, self._version + 1

    def add_class(self, name: str) -> None:
        self._teacher.add_class(name)

    def save(self, path: str) -> int:
        """Write the model; returns the size of the file."""
        self._teacher.save(Path(path))
        return Path(path).stat().st_size

    def replay(
        self, classes: Sequence[str], taught: Sequence[tuple[Picture, Sequence[Mark]]], train: bool
    ) -> list[Any]:
        """Teach everything again, in a new process; returns the new numbers of the frames."""
        known = set(self.facts()["classes"])
        for name in classes:
            if name not in known:
                self._teacher.add_class(name)
        numbers = [self.observe(picture, marks).frame_id for picture, marks in taught]
        if train:
            self.train()
        return numbers

    def _read(self, picture: Picture) -> Array:
        if isinstance(picture, bytes):
            return decode_picture(picture)
        if self._frames is None or not 0 <= picture < len(self._frames):
            raise ValueError(f"there is no frame {picture}")
        return self._frames.read(picture)


def make_lesson(make: Callable[[], tuple[Teacher, bool]], source: str) -> Lesson:
    """A lesson in a process of its own: `make` returns the teacher, and whether it is trained."""
    frames = open_source(source)
    teacher, trained = make()
    return Lesson(teacher, frames, trained)


def _decoded(mark: Mark, size: tuple[int, int]) -> Array:
    if mark.mask is not None:
        mask = decode_mask(mark.mask, size)
        if not mask.any():
            raise ValueError(f"the mask of {mark.label!r} is empty")
        return mask
    assert mark.box is not None
    left, top, right, bottom = mark.box
    left, right = max(0.0, left), min(float(size[1]), right)
    top, bottom = max(0.0, top), min(float(size[0]), bottom)
    if not (right - left >= 1 and bottom - top >= 1):
        raise ValueError(f"the box of {mark.label!r} is empty: {mark.box}")
    return np.array([left, top, right, bottom])


def _boxed(marks: Sequence[Mark], size: tuple[int, int]) -> Array | None:
    """The pixels in the boxes of some marks, or None if there are none."""
    if not marks:
        return None
    covered = np.zeros(size, dtype=bool)
    for mark in marks:
        left, top, right, bottom = _decoded(replace(mark, mask=None), size)
        covered[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = True
    return covered


def _best_overlap(label: str, shape: Array, found: Sequence[Found]) -> float:
    """The intersection over union of what was marked with what was found of the same class."""
    same = [thing for thing in found if thing.label == label]
    if shape.dtype == bool:
        masks = [np.asarray(thing.mask, dtype=bool) for thing in same]
        return max((float((mask & shape).sum() / (mask | shape).sum()) for mask in masks), default=0.0)
    return max((_box_overlap(shape, np.asarray(thing.box, dtype=float)) for thing in same), default=0.0)


def _box_overlap(one: Array, other: Array) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    common = float(np.prod(np.maximum(sides, 0.0)))
    return common / (float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - common)


def _cropped(mask: Array) -> tuple[int, int, Array]:
    """Left, top and pixels of the part of a mask that holds all of it; one pixel where it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return 0, 0, mask[:1, :1]
    top, left = int(rows[0]), int(columns[0])
    return left, top, mask[top : rows[-1] + 1, left : columns[-1] + 1]
