"""Serve the viewer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from gyrfalcon.pages import Server, Settings

from .program import Studio, Viewable, ViewingProgram

Announce = Callable[[str], None]


def serve(
    model: Viewable,
    *,
    size: int = 480,
    settings: Settings | None = None,
    browser: bool = True,
    announce: Announce | None = print,
) -> None:
    """Open a page that shows a field, until Ctrl-C.

    Parameters
    ----------
    model : KPlanes
        A field that was fitted or loaded.
    size : int
        Pixels of the longer side of the picture.
    settings : pages.Settings, optional
        Another address, port or certificate than a random port of this machine.
    browser : bool
        Whether to open the page.
    announce : callable, optional
        Called with the address, which holds the token of the page.
    """
    Server(ViewingProgram(lambda: Studio(model), size, process=False), settings).run(announce, browser)


def serve_from(path: str | Path, *, size: int = 480, settings: Settings | None = None) -> Server:
    """The server of a page that shows a field from a file, which a process of its own renders."""
    return Server(ViewingProgram(functools.partial(_load, str(path)), size), settings)


def _load(path: str) -> Studio:
    from gyrfalcon import fields

    return Studio(fields.load(path))
