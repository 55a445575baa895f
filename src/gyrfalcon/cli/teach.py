"""`gyrfalcon teach`: a page that teaches a machine to see."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from .options import MODEL_ENDINGS
from .pages import Browser, Certificate, Host, Key, Port, run, settings
from .session import check_output

EXAMPLES = """
Examples:

gyrfalcon teach

gyrfalcon teach clip.mp4 --out mug.safetensors

gyrfalcon teach camera --model mug.safetensors
"""

UNNAMED = Path("taught.safetensors")


def command(
    source: Annotated[str, typer.Argument(help="camera, a clip, or a folder of pictures.")] = "camera",
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Teach this model further (.safetensors).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the page saves the model.", show_default="--model, or taught.safetensors"
        ),
    ] = None,
    network: Annotated[
        str, typer.Option("--network", help="tiny-vit or efficientnet-lite0, which is faster.")
    ] = "tiny-vit",
    size: Annotated[
        int, typer.Option("--size", min=64, help="Pixels of the longest side that the network sees.")
    ] = 320,
    host: Host = "127.0.0.1",
    port: Port = 0,
    certificate: Certificate = None,
    key: Key = None,
    browser: Browser = True,
) -> None:
    """Teach a machine to see: mark objects in a camera's pictures or in a clip, and see them found at once.

    The page is served on this machine only, to whoever has the token in the address that is printed.
    """
    from gyrfalcon.vision.page import make_segmenter, open_source, serve_from

    wanted = settings(host, port, certificate, key)
    target = out or model or UNNAMED
    check_output(target, MODEL_ENDINGS)
    if out is None and model is None and target.exists():
        raise ValueError(f"{target} exists: go on from it with --model {target}, or choose another name with --out")
    if model is not None and not model.is_file():
        raise ValueError(f"--model {model}: there is no such file")
    frames = open_source(source)  # errors are told before the network is loaded
    if frames is not None:
        frames.close()
    make = functools.partial(make_segmenter, None if model is None else str(model), network, size)
    run(serve_from(make, source, out=target, settings=wanted), "Teach", browser)
