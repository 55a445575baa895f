"""The `gyrfalcon` command: a model from a table, predictions, reports, plans and a look at the installation."""

import sys


def main() -> None:
    """What the command runs; `python -m gyrfalcon` too."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'gyrfalcon[cli]'")
    except KeyboardInterrupt:
        print("error: interrupted, nothing was written", file=sys.stderr)
        sys.exit(130)
    app()
