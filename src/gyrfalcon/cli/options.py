"""Arguments and options that commands share."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

MODEL_ENDINGS = (".safetensors",)
REPORT_ENDINGS = (".html",)


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


Data = Annotated[
    Path, typer.Argument(help="A table: CSV, TSV, Parquet, Feather, NPZ, libsvm or ARFF.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model file that fit or tune wrote.", show_default=False)]
Target = Annotated[str, typer.Option("--target", "-t", help="The column to predict.", show_default=False)]
TaskOption = Annotated[
    Task, typer.Option("--task", help="auto: text, booleans and at most ten whole numbers are classes.")
]
Budget = Annotated[
    float,
    typer.Option(
        "--time-budget",
        parser=seconds,
        metavar="DURATION",
        help="How long tuning and fitting may take: 90, 60s, 5m, 1h. Centers and tuning are chosen accordingly.",
    ),
]
TestFraction = Annotated[
    float,
    typer.Option("--test-fraction", min=0.0, max=0.9, help="The share of the rows that is set aside for testing."),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="The delimiter of a CSV file: a character or 'tab'. Detected if not given."),
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
