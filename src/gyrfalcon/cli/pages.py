"""Options of commands that serve a page, and serving until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gyrfalcon.pages import Server, Settings

Host = Annotated[
    str, typer.Option("--host", help="The address to listen on; others than this machine's need a certificate.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one at random.")]
Certificate = Annotated[Path | None, typer.Option("--certificate", help="A certificate (.pem), to serve by HTTPS.")]
Key = Annotated[Path | None, typer.Option("--key", help="The key of the certificate (.pem).")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")]


def settings(host: str, port: int, certificate: Path | None, key: Path | None) -> Settings:
    """Where to serve; raises an error that says what to install, or which option to change."""
    try:
        from gyrfalcon.pages import Settings
    except ModuleNotFoundError as error:
        raise ImportError(f"pages need {error.name}: pip install 'gyrfalcon[pages]'") from None
    return Settings(host, port, certificate, key)


def run(server: Server, title: str, browser: bool) -> None:
    """Serve until Ctrl-C."""
    typer.echo(f"{title}: starting …", err=True)
    server.run(lambda url: typer.echo(f"{title}: {url}\nCtrl-C ends it."), browser)
    typer.echo(f"{title}: ended.", err=True)
