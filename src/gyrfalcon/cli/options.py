"""Arguments and options that commands share."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

MODEL_ENDINGS = (".safetensors",)
REPORT_ENDINGS = (".html",)

# What help and completion show of the library, which they do not load; a test compares them.
SCORES = (
    "rmse",
    "mae",
    "r2",
    "accuracy",
    "baseline_accuracy",
    "balanced_accuracy",
    "log_loss",
    "roc_auc",
    "average_precision",
)
OBJECTIVES = ("creg", "gcv", "holdout", "kfold", "loocv", "proposed", "sgpr")


class Task(StrEnum):
    """What is predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


def seconds(text: str | float) -> float:
    """A duration such as 90, 60s, 5m or 1.5h, in seconds.

    >>> seconds("1.5m")
    90.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", str(text).strip())
    if not found or float(found[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is no duration: write 90, 60s, 5m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2] or "s"]


def date_formats(given: list[str] | None) -> str | dict[str, str] | None:
    """Formats of dates, one for all columns or by column.

    >>> date_formats(["%d/%m/%Y"]), date_formats(["sold=%d/%m/%Y", "built=%Y%m%d"])
    ('%d/%m/%Y', {'sold': '%d/%m/%Y', 'built': '%Y%m%d'})
    """
    if not given:
        return None
    by_column = dict(text.split("=", 1) for text in given if "=" in text)
    if not by_column and len(given) == 1:
        return given[0]
    if len(by_column) < len(given):
        raise typer.BadParameter("--date-format is one format for all columns, or COLUMN=FORMAT for each")
    return by_column


def check_metrics(names: list[str] | None) -> None:
    """Refuse names of scores that there are not."""
    if unknown := [name for name in names or () if name not in SCORES]:
        raise typer.BadParameter(f"--metric must be one of {', '.join(SCORES)}, got {unknown[0]!r}")


def only(scores: dict[str, Any] | None, names: list[str] | None) -> dict[str, Any] | None:
    """The scores that were asked for."""
    if not names or scores is None:
        return scores
    if absent := [name for name in names if name not in scores]:
        has = ", ".join(name for name in scores if name != "rows")
        raise ValueError(f"--metric {absent[0]} is not known of this model: it has {has}")
    return {name: scores[name] for name in ("rows", *names) if name in scores}


Data = Annotated[
    Path,
    typer.Argument(
        help="A table: CSV, TSV, Excel, JSON lines, Parquet, Feather, NPZ, libsvm or ARFF; a folder of such files, "
        "or a pattern in quotation marks, such as 'trips/*.csv'.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(help="A model file that fit or tune wrote.", show_default=False)]
Target = Annotated[str, typer.Option("--target", "-t", help="The column to predict.", show_default=False)]
TaskOption = Annotated[
    Task, typer.Option("--task", help="auto: text, booleans and at most ten whole numbers are classes.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--time-budget",
        parser=seconds,
        metavar="DURATION",
        help="How long tuning and fitting may take: 90, 60s, 5m, 1h. A note says what was cut for it. "
        "Without it, the model depends on the data and the seed only.",
        show_default=False,
    ),
]
Centers = Annotated[
    int | None, typer.Option("--n-centers", min=1, help="The number of centers.", show_default="chosen from the data")
]
ClassWeight = Annotated[
    str | None,
    typer.Option("--class-weight", help="Weights of the classes: balanced, or for example yes=10,no=1."),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", help="Of two classes, predict the positive one where its probability is at least this."
    ),
]
Positive = Annotated[
    str | None, typer.Option("--positive", help="The positive one of two classes.", show_default="the second")
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="A folder where the fit is kept while it runs: killed, the same command goes on from there.",
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        "--cv", min=2, help="Test by cross-validation with so many parts; the model is then fitted to all rows."
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option("--metric", help=f"Show only this score: {', '.join(SCORES)}."),
]
TestFraction = Annotated[
    float,
    typer.Option("--test-fraction", min=0.0, max=0.9, help="The share of the rows that is set aside for testing."),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="The delimiter of a CSV file: a character or 'tab'. Detected if not given."),
]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", help="The decimal separator of numbers, '.' or ','. Detected if not given."),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="The encoding of a CSV file, such as cp1252. Detected if not given.")
]
Sheet = Annotated[str | None, typer.Option("--sheet", help="The sheet of an Excel file.", show_default="the first")]
DateFormats = Annotated[
    list[str] | None,
    typer.Option(
        "--date-format",
        metavar="[COLUMN=]FORMAT",
        help="How dates are written, such as %d/%m/%Y, in all columns or in one. Can be repeated. "
        "Detected if not given.",
    ),
]
Categorical = Annotated[
    list[str] | None, typer.Option("--categorical", help="A column of numbers that are categories. Can be repeated.")
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out. Can be repeated.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="The same seed gives the same model.")]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read the file in passes instead of at once; numbers only. "
        "Without either: if it takes more than a quarter of the free memory.",
        show_default=False,
    ),
]
Report = Annotated[Path | None, typer.Option("--report", help="Write a report of the test rows here (.html).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
