"""`gyrfalcon fit`: fit a model to a table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from .options import (
    MODEL_ENDINGS,
    REPORT_ENDINGS,
    Budget,
    Categorical,
    Data,
    Delimiter,
    Drop,
    Json,
    Report,
    Seed,
    Stream,
    Target,
    Task,
    TaskOption,
    TestFraction,
)
from .reporting import report_of
from .session import check_output, listing, tell
from .training import Request, train

EXAMPLES = """
Examples:

gyrfalcon fit homes.csv --target price --out homes.safetensors

gyrfalcon fit mail.parquet --target spam --time-budget 5m --out spam.safetensors --report spam.html
"""


def command(
    data: Data,
    target: Target,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The model file to write (.safetensors).", show_default=False)
    ],
    task: TaskOption = Task.auto,
    time_budget: Budget = 60.0,
    test_fraction: TestFraction = 0.2,
    report: Report = None,
    delimiter: Delimiter = None,
    categorical: Categorical = None,
    drop: Drop = None,
    stream: Stream = None,
    updatable: Annotated[
        bool,
        typer.Option("--updatable", help="Keep what `gyrfalcon update` adds rows to. Classes are coded by squares."),
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a model that predicts one column of a table from the others.

    Categories, dates and missing values are taken as they are. Some rows are set aside, and the model is tested on
    them; the model that is written is the one that was tested.
    """
    check_output(out, MODEL_ENDINGS)
    check_output(report, REPORT_ENDINGS)
    if report is not None and test_fraction == 0:
        raise typer.BadParameter("--report needs test rows: set --test-fraction above 0, or use evaluate --report")
    request = Request(
        data,
        target,
        task,
        time_budget,
        test_fraction,
        seed,
        delimiter,
        categorical or [],
        drop or [],
        stream,
        updatable=updatable,
    )
    done = train(request)
    facts = {"command": "fit", **done.facts, "out": out, "report": report}
    if report is not None:
        if done.test is None:
            raise ValueError("--report needs test rows, and there are too few rows to set some aside")
        title = f"{target} of {data.name}"
        report_of(report, done.model, *done.test, train=done.train, title=title, reproduce=_again(request, facts))
    done.model.save(out)
    tell(facts, json, lambda console: show(console, facts))


def show(console: Console, facts: dict[str, Any]) -> None:
    """Describe the model and its scores."""
    model = facts["model"]
    fitted = {
        "rows": f"{facts['train_rows']:,} to fit, {facts['test_rows']:,} to test",
        "features": model["features"],
        "kernel": f"{model['kernel']}, penalty {model['penalty']:.2g}",
        "centers": model["centers"],
        "solver": f"{model['solver']}: {model['message']}",
        "seconds": facts["seconds"],
    }
    console.print(listing(f"{facts['task']} of {facts['target']}", fitted))
    if facts["test"]:
        console.print(listing("on the test rows", facts["test"]))
    for name in ("out", "report"):
        if facts.get(name) is not None:
            console.print(f"written: {facts[name]}")


def _again(request: Request, facts: dict[str, Any]) -> str:
    given = {name: facts[name] for name in ("target", "task", "out", "report")}
    given |= {"time-budget": request.seconds, "test-fraction": request.test_fraction, "seed": request.seed}
    given |= {} if request.delimiter is None else {"delimiter": request.delimiter}
    options = [*given.items(), *(("categorical", name) for name in request.categorical)]
    options += [("drop", name) for name in request.drop]
    words = ["gyrfalcon", "fit", request.data, *(word for name, value in options for word in (f"--{name}", value))]
    words += ["--updatable"] if request.updatable else []
    return shlex.join(map(str, [*words, "--stream" if facts["streamed"] else "--no-stream"]))
