"""`gyrfalcon demo`: make an example table, fit, predict and test it, and show the commands."""

from __future__ import annotations

import contextlib
import io
import json as json_text
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from . import evaluate, fit, predict
from .options import Json, Task
from .output import write_columns
from .session import tell

EXAMPLES = """
Examples:

gyrfalcon demo

gyrfalcon demo --folder /tmp/homes --rows 5000
"""
CITIES = {"Genoa": 2.6, "Turin": 1.9, "Milan": 4.1, "Rome": 3.4, "Bari": 1.5}


def command(
    folder: Annotated[Path, typer.Option(help="Where to put the files. It is made if it does not exist.")] = Path(
        "gyrfalcon-demo"
    ),
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="Homes in the table.")] = 1500,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write a report.")] = True,
    json: Json = False,
) -> None:
    """Make a table of homes with categories, dates and missing values; fit, predict, test and report."""
    folder.mkdir(parents=True, exist_ok=True)
    table = homes(rows + rows // 5)
    old = {name: cells[:rows] for name, cells in table.items()}
    new = {name: cells[rows:] for name, cells in table.items()}
    data, later, model = folder / "homes.csv", folder / "new_homes.csv", folder / "homes.safetensors"
    page, predictions = folder / "homes.html" if report else None, folder / "predictions.csv"
    write_columns(data, old)
    write_columns(later, new)
    written = f" --report {page}" if page else ""
    steps = {
        f"fit {data} --target price --out {model}{written}": partial(
            fit.command, data, "price", model, Task.regression, report=page
        ),
        f"predict {model} {later} --out {predictions}": partial(predict.command, model, later, predictions),
        f"evaluate {model} {later}": partial(evaluate.command, model, later),
    }
    found = {line.split()[0]: _run(line, step, json) for line, step in steps.items()}
    tell({"command": "demo", **found}, json, lambda console: console.print(f"the files are in {folder}"))


def _run(line: str, step: Callable[..., None], json: bool) -> Any:
    """Run a command as if it had been typed. Its result is returned for JSON output, so that there is one object."""
    if not json:
        typer.echo(f"$ gyrfalcon {line}")
        return step()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        step(json=True)
    return json_text.loads(said.getvalue())


def homes(rows: int) -> dict[str, Any]:
    """Homes that were sold, with area, rooms, city, energy class, garden, date, price and missing values."""
    import numpy as np

    random = np.random.default_rng(0)
    city = random.choice(list(CITIES), rows, p=[0.25, 0.2, 0.25, 0.2, 0.1])
    area = random.gamma(6.0, 15.0, rows).round(1) + 20
    energy = random.choice(list("ABCDE"), rows)
    garden = random.random(rows) < 0.3
    sold = np.datetime64("2021-01-01") + random.integers(0, 5 * 365, rows)
    age = (sold - np.datetime64("2021-01-01")).astype(float) / 365
    each = np.array([CITIES[name] for name in city]) * (1 + 0.04 * age)
    each *= 1.1 - 0.05 * np.array(["ABCDE".index(letter) for letter in energy])
    price = area * each * (1 + 0.1 * garden) + 30 * np.sqrt(area) + random.normal(0, 8, rows)
    rooms = np.maximum(1, (area / 25 + random.normal(0, 0.7, rows)).round())
    return {
        "area": np.where(random.random(rows) < 0.05, np.nan, area),
        "rooms": rooms.astype(int),
        "city": city,
        "energy": [None if gap else letter for gap, letter in zip(random.random(rows) < 0.1, energy, strict=True)],
        "garden": garden,
        "sold": sold,
        "price": price.round(1),
    }
