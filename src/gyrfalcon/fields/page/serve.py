"""Serve the viewer."""

from __future__ import annotations

import functools
from pathlib import Path

from gyrfalcon.pages import Server, Settings

from .program import Studio, ViewingProgram


def serve_from(path: str | Path, *, size: int = 480, settings: Settings | None = None) -> Server:
    """The server of a page that shows a field from a file, which a process of its own renders."""
    return Server(ViewingProgram(functools.partial(_load, str(path)), size), settings)


def _load(path: str) -> Studio:
    from gyrfalcon import fields

    return Studio(fields.load(path))
