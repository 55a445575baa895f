"""Output of commands: results on stdout, notes on stderr, errors as one line, and exit codes."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gyrfalcon.command import INTERRUPTED, INTERRUPTION, loading

FAILED = 1
DEBUG = "GYRFALCON_DEBUG"


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors as one line on stderr and an exit code instead of a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with loading():  # what every command needs, and help does not
                import gyrfalcon.tables  # noqa: F401
            with _warnings_as_notes(), _log_lines():
                command(*args, **kwargs)
        except KeyboardInterrupt:
            raise _failure(INTERRUPTION, INTERRUPTED) from None
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise _failure(_words(error)) from None
        except MemoryError:
            raise _failure("there is not enough memory: use fewer rows or columns") from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            said = f"unexpected {type(error).__name__}: {_words(error)}: please report it; {DEBUG}=1 shows where"
            raise _failure(said) from None

    run.__name__ = command.__module__.rpartition(".")[2]
    return run


def _failure(words: str, code: int = FAILED) -> typer.Exit:
    typer.echo(f"error: {words}", err=True)
    return typer.Exit(code)


def _words(error: BaseException) -> str:
    """The message of an error on one line, without the quotes that Python adds."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


def note(words: str) -> None:
    """Write one line to stderr."""
    typer.echo(f"note: {' '.join(words.split())}", err=True)


def warn(words: str) -> None:
    """Write a line to stderr that is not to be overlooked."""
    typer.secho(f"warning: {' '.join(words.split())}", err=True, fg=typer.colors.YELLOW, bold=True)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for ignored in (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.showwarning = lambda message, *_, **__: note(str(message))
        yield


@contextmanager
def _log_lines() -> Iterator[None]:
    """What the library logs, on stderr: where there is a terminal, its bars show the same."""
    logger, handler = logging.getLogger("gyrfalcon"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def tell(result: Mapping[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """Write the result, as one JSON object or as text."""
    if as_json:
        typer.echo(json.dumps(_plain(result), ensure_ascii=False, allow_nan=False))
    else:
        show(Console(highlight=False, markup=False, emoji=False, soft_wrap=True))


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON can represent."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # of NumPy, which is not loaded for this
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def listing(title: str, rows: Mapping[str, Any]) -> Table:
    """Names and values, one per line."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, shown(value))
    return table


def shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def check_output(path: Path | None, endings: tuple[str, ...]) -> None:
    """Raise an error before long work starts if a file cannot be written."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {' or '.join(endings)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder: make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: the folder {path.parent} is read-only")
