"""The teaching page, from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gyrfalcon.pages import Settings

    from .page import Teacher


def serve(
    teacher: Teacher,
    source: str | Path = "camera",
    *,
    out: str | Path = "taught.safetensors",
    trained: bool | None = None,
    settings: Settings | None = None,
    browser: bool = True,
    announce: Callable[[str], None] | None = print,
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
    try:
        from gyrfalcon.pages import Server

        from .page import Lesson, TeachingProgram, open_source
    except ModuleNotFoundError as error:
        raise ImportError(f"the teaching page needs {error.name}: pip install 'gyrfalcon[vision]'") from None

    frames = open_source(source)
    known = bool(list(getattr(teacher, "classes_", ()))) if trained is None else trained
    lesson = Lesson(teacher, frames, known)
    try:
        Server(TeachingProgram(lambda: lesson, Path(out), process=False), settings).run(announce, browser)
    finally:
        if frames is not None:
            frames.close()
