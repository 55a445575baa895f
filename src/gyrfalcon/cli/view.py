"""`gyrfalcon view`: walk around in a radiance field."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Model
from .pages import Browser, Certificate, Host, Key, Port, run, settings

EXAMPLES = """
Examples:

gyrfalcon view scene.safetensors

gyrfalcon view scene.safetensors --size 600 --no-browser
"""


def command(
    model: Model,
    size: Annotated[
        int, typer.Option("--size", min=16, max=2048, help="Pixels of the longer side of the picture.")
    ] = 480,
    host: Host = "127.0.0.1",
    port: Port = 0,
    certificate: Certificate = None,
    key: Key = None,
    browser: Browser = True,
) -> None:
    """View a radiance field in a browser: drag to turn, scroll to come closer, slide through time.

    The page is served on this machine only, to whoever has the token in the address that is printed.
    """
    from gyrfalcon.fields.page import serve_from

    wanted = settings(host, port, certificate, key)
    if not model.is_file():
        raise ValueError(f"{model}: there is no such file")
    run(serve_from(model, size=size, settings=wanted), "View", browser)
