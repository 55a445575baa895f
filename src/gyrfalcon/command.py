"""What the `gyrfalcon` command runs first: it loads the commands, which takes a moment, and can be interrupted."""

import os
import signal
import sys
from typing import Any

from .version import __version__

INTERRUPTED = 130
INTERRUPTION = "interrupted, no file was left unfinished"


def main() -> None:
    """The command, and `python -m gyrfalcon`. Until it is loaded, an interrupt ends it at once, in one line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"gyrfalcon {__version__}")
        return
    usual = signal.getsignal(signal.SIGINT)
    if callable(usual):  # not where a shell has it ignored
        signal.signal(signal.SIGINT, _leave)
    try:
        from .cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'gyrfalcon[cli]'")
    signal.signal(signal.SIGINT, usual)
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun, or after it
        _leave()


def _leave(*_: Any) -> None:
    """Not by an exception, which modules half imported could catch or turn into another."""
    os.write(2, f"error: {INTERRUPTION}\n".encode())
    os._exit(INTERRUPTED)
