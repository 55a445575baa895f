"""`gyrfalcon fit`: fit a model to a table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from gyrfalcon.command import INTERRUPTED

from .options import (
    MODEL_ENDINGS,
    REPORT_ENDINGS,
    Budget,
    Categorical,
    Centers,
    CheckpointFolder,
    ClassWeight,
    Data,
    DateFormats,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Folds,
    Json,
    Metric,
    Positive,
    Report,
    Seed,
    Sheet,
    Stream,
    Target,
    Task,
    TaskOption,
    TestFraction,
    Threshold,
    check_metrics,
    date_formats,
    only,
)
from .session import check_output, listing, shown, tell, warn

if TYPE_CHECKING:
    from .training import Request

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
    time_budget: Budget = None,
    n_centers: Centers = None,
    test_fraction: TestFraction = 0.2,
    cv: Folds = None,
    metric: Metric = None,
    report: Report = None,
    class_weight: ClassWeight = None,
    threshold: Threshold = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    date_format: DateFormats = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    categorical: Categorical = None,
    drop: Drop = None,
    stream: Stream = None,
    updatable: Annotated[
        bool,
        typer.Option("--updatable", help="Keep what `gyrfalcon update` adds rows to. Classes are coded by squares."),
    ] = False,
    checkpoint: CheckpointFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a model that predicts one column of a table from the others.

    Categories, dates, currencies, percentages and missing values are taken as they are. Some rows are set aside, and
    the model is tested on them; the model that is written is the one that was tested. Ctrl-C during the fit keeps what
    was reached.
    """
    from .reporting import report_of
    from .training import Request, train

    check_output(out, MODEL_ENDINGS)
    check_output(report, REPORT_ENDINGS)
    check_metrics(metric)
    if report is not None and (test_fraction == 0 or cv is not None):
        raise typer.BadParameter("--report needs test rows: leave out --cv and --test-fraction 0")
    if cv is not None and checkpoint is not None:
        raise typer.BadParameter("--checkpoint keeps one fit, and --cv makes several: leave one of them out")
    request = Request(
        data,
        target,
        task,
        time_budget,
        test_fraction,
        seed,
        delimiter=delimiter,
        decimal=decimal,
        encoding=encoding,
        sheet=sheet,
        date_format=date_formats(date_format),
        categorical=categorical or [],
        drop=drop or [],
        stream=stream,
        n_centers=n_centers,
        class_weight=class_weight,
        threshold=threshold,
        positive=positive,
        checkpoint=checkpoint,
        folds=cv,
        updatable=updatable,
    )
    done = train(request)
    facts = {"command": "fit", **done.facts, "out": out, "report": report}
    facts["test"] = only(facts["test"], metric)
    if "folds" in facts:
        facts["folds"] = only(facts["folds"], metric)
    if report is not None:
        if done.test is None:
            raise ValueError("--report needs test rows, and there are too few rows to set some aside")
        title = f"{target} of {data.name}"
        report_of(report, done.model, *done.test, train=done.train, title=title, reproduce=_again(request, facts))
    done.model.save(out)
    tell(facts, json, lambda console: show(console, facts))
    if done.interrupted:
        warn(f"interrupted: {out} holds what was reached by then")
        raise typer.Exit(INTERRUPTED)


def show(console: Console, facts: dict[str, Any]) -> None:
    """Describe the model and its scores."""
    model = facts["model"]
    fitted = {
        "rows": f"{facts['train_rows']:,} to fit, {facts['test_rows']:,} to test",
        "features": model["features"],
        **({"fitted to": model["fitted_to"]} if "fitted_to" in model else {}),
        "kernel": f"{model['kernel']}, penalty {model['penalty']:.2g}",
        "centers": model["centers"],
        "solver": f"{model['solver']}: {model['message']}",
        "seconds": facts["seconds"],
    }
    console.print(listing(f"{facts['task']} of {facts['target']}", fitted))
    if facts["test"]:
        console.print(listing("on the test rows", facts["test"]))
    if facts.get("folds"):
        said = {name: f"{shown(one['mean'])} ± {shown(one['std'])}" for name, one in facts["folds"].items()}
        console.print(listing("by cross-validation, with the deviation over its parts", said))
    for words in facts["warnings"]:
        warn(words)
    for name in ("out", "report"):
        if facts.get(name) is not None:
            console.print(f"written: {facts[name]}")


def _again(request: Request, facts: dict[str, Any]) -> str:
    """The command that makes the same model and report."""
    given: dict[str, Any] = {name: facts[name] for name in ("target", "task", "out", "report")}
    given |= {"test-fraction": request.test_fraction, "seed": request.seed, "time-budget": request.seconds}
    given |= {"delimiter": request.delimiter, "decimal": request.decimal, "encoding": request.encoding}
    given |= {"sheet": request.sheet, "n-centers": request.n_centers, "class-weight": request.class_weight}
    given |= {"threshold": request.threshold, "positive": request.positive}
    dates = request.date_format
    formats = [f"{name}={one}" for name, one in dates.items()] if isinstance(dates, dict) else [dates] if dates else []
    options = [(name, value) for name, value in given.items() if value is not None]
    for name, values in (("categorical", request.categorical), ("drop", request.drop), ("date-format", formats)):
        options += [(name, value) for value in values]
    words = ["gyrfalcon", "fit", request.data, *(word for name, value in options for word in (f"--{name}", value))]
    words += ["--updatable"] if request.updatable else []
    return shlex.join(map(str, [*words, "--stream" if facts["streamed"] else "--no-stream"]))
