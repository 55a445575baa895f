"""What the `gyrfalcon` command runs first: it loads the commands, and can be interrupted meanwhile."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .version import __version__

INTERRUPTED = 130
INTERRUPTION = "interrupted, no file was left unfinished"


def main() -> None:
    """The command, and `python -m gyrfalcon`. While it loads, an interrupt ends it at once, in one line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"gyrfalcon {__version__}")
        return
    try:
        with loading():
            from .cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'gyrfalcon[cli]'")
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun, or after it
        _leave()


@contextmanager
def loading() -> Iterator[None]:
    """While modules are imported: an interrupt ends the command at once."""
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual):  # a shell has it ignored
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _leave(*_: Any) -> None:
    """Not by an exception, which modules half imported could catch or turn into another."""
    os.write(2, f"error: {INTERRUPTION}\n".encode())
    os._exit(INTERRUPTED)
