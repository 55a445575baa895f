"""`gyrfalcon predict`: predict the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import gyrfalcon as gf
from gyrfalcon.tables.files import read_table

from .options import Data, Delimiter, Json, Model
from .output import ENDINGS, write_columns
from .session import check_output, tell
from .summary import parts
from .training import is_large

EXAMPLES = """
Examples:

gyrfalcon predict homes.safetensors new_homes.csv --out predictions.csv

gyrfalcon predict spam.safetensors mail.parquet --out predictions.parquet --keep id
"""


def command(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write (.csv, .parquet or .feather).", show_default=False)
    ],
    keep: Annotated[list[str] | None, typer.Option("--keep", help="A column to copy. May be repeated.")] = None,
    std: Annotated[bool, typer.Option("--std", help="Also write standard deviations of a regression.")] = False,
    delimiter: Delimiter = None,
    json: Json = False,
) -> None:
    """Predict every row of a table, in its order.

    The file has a column `prediction`, and of a classification a column of probabilities for each class. Categories
    that the fit has not seen are predicted as others, and a note tells how many there were.
    """
    check_output(out, ENDINGS)
    if out.resolve() == data.resolve():
        raise ValueError(f"--out {out} is the table itself: name another file")
    loaded = gf.load(model)
    _, names, task, target = parts(loaded)
    if not isinstance(loaded, gf.TableModel) and is_large(data) and not keep and not std:
        rows = loaded.write_predictions(data, out)
    else:
        table = read_table(data, delimiter=delimiter, features=names)
        if unknown := [name for name in keep or () if name not in table]:
            raise ValueError(f"--keep: there is no column {unknown[0]!r} in {data}")
        made = predictions(loaded, table, names, std)
        if taken := [name for name in keep or () if name in made]:
            raise ValueError(f"--keep: a column of predictions is called {taken[0]!r} too: rename it in {data}")
        rows = write_columns(out, {name: table[name] for name in keep or ()} | made)
    facts = {
        "command": "predict",
        "model": model,
        "data": data,
        "target": target,
        "task": task,
        "rows": rows,
        "out": out,
    }
    tell(facts, json, lambda console: console.print(f"{rows:,} predictions of {target}\nwritten: {out}"))


def predictions(model: Any, table: dict[str, Any], names: list[str], std: bool) -> dict[str, Any]:
    """Columns of predictions, probabilities and standard deviations, by name."""
    estimator = parts(model)[0]
    X = model.features(table) if isinstance(model, gf.TableModel) else matrix(table, names)
    if hasattr(estimator, "predict_proba"):
        if std:
            raise ValueError("--std is for regressions: classifications are written with probabilities")
        chances = np.asarray(estimator.predict_proba(X)).T
        labels = [f"probability_{label}" for label in estimator.classes_]
        return {"prediction": estimator.predict(X)} | dict(zip(labels, chances, strict=True))
    if not std:
        return {"prediction": estimator.predict(X)}
    if not estimator._evidence:
        raise ValueError("--std needs a model that knows its error bars: fit keeps them for up to 5,000 rows")
    mean, deviation = estimator.predict(X, return_std=True)
    return {"prediction": mean, "standard_deviation": deviation}


def matrix(table: dict[str, Any], names: list[str], dtype: Any = np.float32) -> Any:
    """Columns of numbers as one matrix, for an estimator that was fitted to numbers only."""
    if absent := [name for name in names if name not in table]:
        raise ValueError(f"the table has no column {absent[0]!r}, which the fit had")
    from gyrfalcon.tables.columns import as_column

    out = np.stack([as_column(name, table[name]).as_numbers() for name in names], 1)
    if np.isnan(out).any():
        row, column = np.argwhere(np.isnan(out))[0]
        raise ValueError(f"row {row}, column {names[column]!r} is missing, and this model was fitted to numbers only")
    return out.astype(dtype)
