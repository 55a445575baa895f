"""The commands, by name."""

from __future__ import annotations

from typing import Annotated

import typer

import gyrfalcon

from . import (
    bench,
    demo,
    doctor,
    dynamics,
    evaluate,
    field,
    fit,
    forecast,
    info,
    plan,
    predict,
    report,
    segment,
    teach,
    tune,
    update,
    view,
)
from .session import guarded

app = typer.Typer(
    name="gyrfalcon",
    help="Kernel machines at any scale: good models from tables in a minute.",
    epilog="Start with: gyrfalcon demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

TABLES = (fit, predict, evaluate, report, update, tune, dynamics, forecast)
PICTURES = (teach, segment, field, view)
for module in (*TABLES, *PICTURES, info, plan, bench, doctor, demo):
    app.command(epilog=module.EXAMPLES)(guarded(module.command))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gyrfalcon {gyrfalcon.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Kernel machines at any scale: good models from tables in a minute."""
