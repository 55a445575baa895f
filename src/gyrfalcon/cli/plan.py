"""`gyrfalcon plan`: predict how long a fit will take and how much memory it will need."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import gyrfalcon as gf

from .options import Json
from .session import tell

EXAMPLES = """
Examples:

gyrfalcon plan 1e6 10 1000

gyrfalcon plan 1e9 9 10000 --storage parquet --workers 8 --table
"""


class DType(StrEnum):
    """The types of features."""

    float32 = "float32"
    float64 = "float64"


class Storage(StrEnum):
    """Where the rows can be."""

    memory = "memory"
    parquet = "parquet"
    feather = "feather"
    npy = "npy"


def command(
    rows: Annotated[float, typer.Argument(min=1, help="Number of rows, such as 1e6.", show_default=False)],
    features: Annotated[int, typer.Argument(min=1, help="Number of features.", show_default=False)],
    centers: Annotated[float, typer.Argument(min=1, help="Number of centers, such as 1e4.", show_default=False)],
    outputs: Annotated[int, typer.Option(min=1, help="Number of targets or classes.")] = 1,
    iterations: Annotated[int, typer.Option(min=1, help="Number of iterations of Falkon.")] = 20,
    kernel: Annotated[str, typer.Option(help="A name such as gaussian, laplacian or matern.")] = "gaussian",
    dtype: Annotated[DType, typer.Option(help="The type of the features.")] = DType.float32,
    storage: Annotated[Storage, typer.Option(help="Where the rows are during the fit.")] = Storage.memory,
    workers: Annotated[int, typer.Option(min=1, help="Number of machines like this one.")] = 1,
    table: Annotated[bool, typer.Option("--table", help="Also show other numbers of rows and machines.")] = False,
    json: Json = False,
) -> None:
    """Predict the time and the memory of a fit on this machine, from a calibration of a second or two."""
    planned = gf.plan(
        rows,
        features,
        int(centers),
        outputs,
        dtype=dtype.value,
        kernel=kernel,
        iterations=iterations,
        storage=storage.value,
        workers=workers,
    )
    low, high = planned.interval
    facts: dict[str, Any] = {
        "command": "plan",
        "rows": planned.n,
        "features": planned.d,
        "centers": planned.m,
        "outputs": planned.t,
        "workers": planned.workers,
        "seconds": {"point": planned.total, "low": low, "high": high},
        "parts": {name: part.point for name, part in planned.seconds.items() if name != "total"},
        "bytes": planned.peak_bytes,
        "assumed": planned.assumed,
    }
    grid = planned.table() if table else None
    if grid is not None:
        facts["table"] = [
            {"rows": one.n, "workers": one.workers, "seconds": one.total, "bytes": one.peak_bytes}
            for line in grid.plans
            for one in line
        ]
    tell(facts, json, lambda console: console.print(*(str(part) for part in (planned, grid) if part), sep="\n"))
