"""`gyrfalcon plan`: predict how long a fit will take and how much memory it will need."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import gyrfalcon as gf

from .options import Json
from .session import tell

EXAMPLES = """
Examples:

gyrfalcon plan 1e6 10 1000

gyrfalcon plan homes.csv --target price

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
    rows: Annotated[str, typer.Argument(help="Number of rows, such as 1e6, or a table to count.", show_default=False)],
    features: Annotated[
        int | None, typer.Argument(min=1, help="Number of features; not with a table.", show_default=False)
    ] = None,
    centers: Annotated[
        float | None,
        typer.Argument(
            min=1, help="Number of centers of a fit by Falkon, such as 1e4.", show_default="those of a default fit"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="The column of a table to predict.")] = None,
    outputs: Annotated[int, typer.Option(min=1, help="Number of targets or classes.")] = 1,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Number of iterations of Falkon.", show_default="20")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="A name such as gaussian, laplacian or matern.", show_default="gaussian")
    ] = None,
    dtype: Annotated[
        DType | None, typer.Option(help="The type of the features.", show_default="float32, or that of a fit")
    ] = None,
    storage: Annotated[Storage, typer.Option(help="Where the rows are during the fit.")] = Storage.memory,
    workers: Annotated[int, typer.Option(min=1, help="Number of machines like this one.")] = 1,
    table: Annotated[bool, typer.Option("--table", help="Also show other numbers of rows and machines.")] = False,
    json: Json = False,
) -> None:
    """Predict the time and the memory of a fit on this machine, from a calibration of a second or two.

    Without CENTERS, and without an option that says how, the fit is one with default arguments, which tunes.
    """
    from gyrfalcon.progress import Bar

    with Bar("reading the table", verbose=True) as bar:
        size = _size(rows, features, target)
        kind = size.dtype if dtype is None else dtype.value
        falkon = (iterations, kernel) != (None, None) or workers > 1 or storage is not Storage.memory or table
        if centers is None and falkon:
            centers = _usual_centers(size.rows, kind, outputs)
        bar.stage("planning")
        planned = gf.plan(
            size.rows,
            size.features,
            None if centers is None else int(centers),
            outputs,
            dtype=kind,
            kernel=kernel,
            iterations=iterations,
            storage=storage.value,
            workers=workers,
        )
    if size.whole:
        words = f"every column of {rows} is a feature: name the one to predict with --target"
        planned = replace(planned, assumed=(*planned.assumed, words))
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


def _usual_centers(rows: int, dtype: str, outputs: int) -> int:
    import numpy as np
    import torch

    from gyrfalcon.matrix.plan import default_budget

    budget = default_budget(torch.device("cpu"))
    return gf.centers.automatic_count(rows, np.dtype(dtype).itemsize, budget, outputs)


@dataclass(frozen=True)
class Size:
    """Rows and features, the type that features would have in a fit, and whether a target is counted among them."""

    rows: int
    features: int
    dtype: str = "float32"
    whole: bool = False


def _size(rows: str, features: int | None, target: str | None) -> Size:
    """The size that two numbers say, or that of the features of a table."""
    try:
        count = float(rows)
    except ValueError:
        return _size_of_table(Path(rows), features, target)
    if not 1 <= count < math.inf:
        raise typer.BadParameter(f"the number of rows must be positive, got {rows}")
    if features is None:
        raise typer.BadParameter("the number of features is missing: plan ROWS FEATURES CENTERS, or plan TABLE")
    if target is not None:
        raise typer.BadParameter("--target names a column of a table: leave it out")
    return Size(int(count), features)


def _size_of_table(path: Path, features: int | None, target: str | None) -> Size:
    from .training import FLOAT32_ROWS, is_large

    if features is not None:
        raise typer.BadParameter(f"the features of {path} are counted: give no other numbers")
    if is_large(path):
        return Size(*gf.data.open(path, target=target).X.shape, whole=target is None)
    columns = gf.tables.read_table(path)
    if target is not None and columns.pop(target, None) is None:
        raise ValueError(f"--target: there is no column {target!r} in {path}")
    preprocessor = gf.TablePreprocessor().fit(columns)
    rows = len(next(iter(columns.values())))
    kind = "float32" if rows > FLOAT32_ROWS else "float64"
    return Size(rows, len(preprocessor.sources), kind, whole=target is None)
