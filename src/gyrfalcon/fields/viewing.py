"""The viewer, from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gyrfalcon.pages import Settings

    from .page import Viewable


def view(
    model: Viewable,
    *,
    size: int = 480,
    settings: Settings | None = None,
    browser: bool = True,
    announce: Callable[[str], None] | None = print,
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

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> model = fields.load("scene.safetensors")  # doctest: +SKIP
    >>> fields.view(model)  # doctest: +SKIP
    """
    try:
        from gyrfalcon.pages import Server

        from .page import Studio, ViewingProgram
    except ModuleNotFoundError as error:
        raise ImportError(f"the viewer needs {error.name}: pip install 'gyrfalcon[fields]'") from None

    Server(ViewingProgram(lambda: Studio(model), size, process=False), settings).run(announce, browser)
