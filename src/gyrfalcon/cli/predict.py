"""`gyrfalcon predict`: predict the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import gyrfalcon as gf

from .options import Data, Delimiter, Encoding, Json, Model, Positive, Sheet, Threshold
from .output import ENDINGS, write_columns
from .session import check_output, tell

EXAMPLES = """
Examples:

gyrfalcon predict homes.safetensors new_homes.csv --out predictions.csv

gyrfalcon predict homes.safetensors new_homes.csv --out predictions.csv --keep-all --interval 0.95

gyrfalcon predict spam.safetensors mail.parquet --out predictions.parquet --keep id --threshold 0.9
"""


def command(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write (.csv, .parquet or .feather).", show_default=False)
    ],
    keep: Annotated[list[str] | None, typer.Option("--keep", help="A column to copy. Can be repeated.")] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Copy all columns of the table.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Also write standard deviations of a regression.")] = False,
    interval: Annotated[
        float | None,
        typer.Option("--interval", help="Also write the ends of intervals that hold, for example, 0.95 of new values."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba/--no-proba", help="Whether to write the probabilities of the classes.")
    ] = True,
    threshold: Threshold = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    json: Json = False,
) -> None:
    """Predict every row of a table, in its order.

    The file has a column `prediction`. A classification also has a column `probability_…` for each class, and a
    regression, if asked for, `standard_deviation`, `lower` and `upper`. Categories that were not in the training rows
    are predicted as others, and a note tells how many there were.
    """
    from .summary import parts
    from .training import is_large

    check_output(out, ENDINGS)
    if out.resolve() == data.resolve():
        raise ValueError(f"--out {out} is the table itself: name another file")
    if interval is not None and not 0 < interval < 1:
        raise typer.BadParameter(f"--interval must lie between 0 and 1, got {interval}")
    loaded = gf.load(model)
    _, names, task, target = parts(loaded)
    _check_options(loaded, task, std or interval is not None, threshold, positive)
    if not isinstance(loaded, gf.TableModel) and loaded.encoder_ is None and is_large(data):
        if keep or keep_all:
            raise ValueError("--keep and --keep-all do not go with files that are read in passes: leave them out")
        rows = loaded.write_predictions(data, out, **_columns(task, std, interval, proba))
    else:
        options = {"delimiter": delimiter, "encoding": encoding, "sheet": sheet}
        table = _read(loaded, data, names, options)
        if unknown := [name for name in keep or () if name not in table]:
            raise ValueError(f"--keep: there is no column {unknown[0]!r} in {data}")
        if threshold is not None or positive is not None:
            loaded.set_params(threshold=threshold or loaded.threshold, positive=positive or loaded.positive)
        made = predictions(loaded, table, names, std=std, interval=interval, proba=proba)
        kept = list(table) if keep_all else keep or []
        if taken := [name for name in kept if name in made]:
            option = "--keep-all" if keep_all else "--keep"
            raise ValueError(f"{option}: a column of predictions is called {taken[0]!r} too: rename it in {data}")
        rows = write_columns(out, {name: table[name] for name in kept} | made)
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


def _check_options(model: Any, task: str, bars: bool, threshold: float | None, positive: str | None) -> None:
    from gyrfalcon.tables.model import check_threshold

    if bars and task == "classification":
        raise ValueError("--std and --interval are for regressions: classifications are written with probabilities")
    if threshold is None and positive is None:
        return
    if task != "classification":
        raise ValueError("--threshold and --positive are for classifications: leave them out")
    if not isinstance(model, gf.TableModel):
        raise ValueError("--threshold does not go with a model that was fitted in passes: use its probabilities")
    if threshold is None and model.threshold is None:
        raise ValueError("--positive says which class --threshold is for: give that too")
    check_threshold(task, model.classes_, threshold, positive)


def _columns(task: str, std: bool, interval: float | None, proba: bool) -> dict[str, Any]:
    """What `write_predictions` takes."""
    return {"probabilities": proba} if task == "classification" else {"return_std": std, "interval": interval}


def _read(model: Any, data: Path, names: list[str], options: dict[str, Any]) -> dict[str, Any]:
    if isinstance(model, gf.TableModel):
        return model.read_table(data, **options)
    return gf.tables.read_table(data, features=names, **options)


def predictions(
    model: Any, table: dict[str, Any], names: list[str], *, std: bool, interval: float | None, proba: bool
) -> dict[str, Any]:
    """Columns of predictions, probabilities, standard deviations and intervals, by name."""
    from .summary import parts

    estimator, _, task, _ = parts(model)
    X = model.features(table) if isinstance(model, gf.TableModel) else matrix(table, names, encoder=estimator.encoder_)
    made = estimator.behind_encoder().prediction_columns(X, **_columns(task, std, interval, proba))
    if isinstance(model, gf.TableModel) and model.threshold is not None:
        made["prediction"] = model.decide(X)
    return made


def matrix(table: dict[str, Any], names: list[str], dtype: str = "float32", *, encoder: Any = None) -> Any:
    """Columns as one matrix: what the encoder of an estimator makes of them, or numbers if it was fitted to those."""
    import numpy as np

    from gyrfalcon.encoding.columns import as_column

    if absent := [name for name in names if name not in table]:
        raise ValueError(f"the table has no column {absent[0]!r}, which the fit had")
    if encoder is not None:
        return encoder.transform({name: table[name] for name in names})
    out = np.stack([as_column(name, table[name]).as_numbers() for name in names], 1)
    if np.isnan(out).any():
        row, column = np.argwhere(np.isnan(out))[0]
        raise ValueError(f"row {row}, column {names[column]!r} is missing, and this model was fitted to numbers only")
    return out.astype(dtype)
