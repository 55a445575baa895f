"""Serve the teaching page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from gyrfalcon.pages import Server, Settings

from .lesson import Lesson, make_lesson
from .program import TeachingProgram
from .protocols import Teacher
from .sources import open_source

Announce = Callable[[str], None]


def serve(
    teacher: Teacher,
    source: str | Path = "camera",
    *,
    out: str | Path = "taught.safetensors",
    trained: bool | None = None,
    settings: Settings | None = None,
    browser: bool = True,
    announce: Announce | None = print,
) -> None:
    """Open a page that teaches a model, until Ctrl-C.

    The teacher itself is taught, in a thread, so that it can be used afterwards. The page is served on this machine
    only, at a random port, to whoever has the token in the address that is printed.

    Parameters
    ----------
    teacher : InstanceSegmenter
        The model that learns.
    source : "camera", or path
        The camera of the browser, a clip, or a folder of pictures.
    out : path
        Where the button "Save" writes the model.
    trained : bool, optional
        Whether the teacher can find objects already. By default, it can if it has classes.
    settings : pages.Settings, optional
        Another address, port or certificate.
    browser : bool
        Whether to open the page.
    announce : callable, optional
        Called with the address.

    Examples
    --------
    >>> from gyrfalcon import vision
    >>> vision.serve(None, "no such clip.mp4")
    Traceback (most recent call last):
    ...
    ValueError: source='no such clip.mp4' is neither 'camera' nor a clip nor a folder of pictures
    """
    frames = open_source(source)
    known = bool(list(getattr(teacher, "classes_", ()))) if trained is None else trained
    lesson = Lesson(teacher, frames, known)
    try:
        Server(TeachingProgram(lambda: lesson, Path(out), process=False), settings).run(announce, browser)
    finally:
        if frames is not None:
            frames.close()


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
