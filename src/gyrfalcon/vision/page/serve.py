"""Serve the teaching page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from gyrfalcon.pages import Server, Settings

from .lesson import make_lesson
from .program import TeachingProgram
from .protocols import Teacher


def serve_from(
    make: Callable[[], tuple[Teacher, bool]],
    source: str | Path = "camera",
    *,
    out: str | Path,
    settings: Settings | None = None,
) -> Server:
    """The server of a page whose teacher is made in a process of its own, which may be killed without harm.

    `make` must be importable, as a function of a module or a partial one. It returns the teacher, and whether the
    teacher can find objects already.
    """
    program = TeachingProgram(functools.partial(make_lesson, make, str(source)), Path(out))
    return Server(program, settings)


def make_segmenter(model: str | None, network: str, size: int) -> tuple[Teacher, bool]:
    """An `InstanceSegmenter` from a file, or a new one with a network of that name, and whether it is trained."""
    from gyrfalcon import vision

    if model is not None:
        return vision.InstanceSegmenter.load(model), True
    return vision.InstanceSegmenter(vision.extractor(network, size=size)), False
