"""`gyrfalcon evaluate`: evaluate a model on a table that has the target."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import gyrfalcon as gf

from .options import (
    REPORT_ENDINGS,
    Data,
    Delimiter,
    Encoding,
    Json,
    Metric,
    Model,
    Report,
    Sheet,
    check_metrics,
    only,
)
from .predict import matrix
from .session import check_output, listing, tell, warn

EXAMPLES = """
Examples:

gyrfalcon evaluate homes.safetensors sold_homes.csv

gyrfalcon evaluate homes.safetensors sold_homes.csv --report homes.html
"""


def command(
    model: Model,
    data: Data,
    report: Report = None,
    metric: Metric = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    json: Json = False,
) -> None:
    """Compare a model's predictions with the truth in a table.

    Give it rows that the model was not fitted to: those it knows say nothing about new ones.
    """
    check_output(report, REPORT_ENDINGS)
    check_metrics(metric)
    options = {"delimiter": delimiter, "encoding": encoding, "sheet": sheet}
    evaluate(model, data, report, options, metric, json, "evaluate")


def evaluate(
    model: Path,
    data: Path,
    report: Path | None,
    options: dict[str, str | None],
    metric: list[str] | None,
    json: bool,
    name: str,
) -> None:
    """What the commands `evaluate` and `report` have in common; `options` say how to read the file."""
    from gyrfalcon.tables.model import model_scores

    from .reporting import report_of
    from .summary import parts
    from .training import shortcomings

    loaded = gf.load(model)
    _, names, task, target = parts(loaded)
    if target is None:
        raise ValueError(f"{model} does not say which column it predicts: evaluate it in Python")
    X, y = _test(loaded, data, names, task, target, options)
    encoder = None if isinstance(loaded, gf.TableModel) else loaded.encoder_
    loaded = loaded if encoder is None else loaded.behind_encoder()  # X has the features that its encoder makes
    scores = only(model_scores(loaded, X, y), metric)
    assert scores is not None
    found = shortcomings(loaded, X, y)
    if report is not None:
        again = ["gyrfalcon", "report", model, data, "--out", report]
        again += [word for option, value in options.items() if value is not None for word in (f"--{option}", value)]
        title = f"{target} of {data.name}"
        report_of(report, loaded, X, y, title=title, reproduce=shlex.join(map(str, again)), encoder=encoder)
    facts = {"command": name, "model": model, "data": data, "target": target, "task": task}
    facts |= {"test": scores, "warnings": found, "report": report}
    said = [listing(f"{task} of {target}", scores), *([] if report is None else [f"written: {report}"])]
    tell(facts, json, lambda console: console.print(*said, sep="\n"))
    for words in found:
        warn(words)


def _test(
    model: Any, data: Path, names: list[str], task: str, target: str, options: dict[str, str | None]
) -> tuple[Any, Any]:
    import numpy as np

    from gyrfalcon.tables.model import rows_of
    from gyrfalcon.tables.targets import read_target, values_of

    from .training import is_large

    if isinstance(model, gf.TableModel):
        table = model.read_table(data, **options)
        rows, y = model.truth(table)
        return model.features(rows_of(table, rows)), y
    if model.encoder_ is None and is_large(data):
        opened = gf.data.open(data, target=target, features=names)
        return opened.X, opened.y
    table = gf.tables.read_table(data, features=names, **options)  # type: ignore[arg-type]
    column, _ = read_target(table, target)
    known = rows_of(table, np.flatnonzero(~column.missing))
    return matrix(known, names, encoder=model.encoder_), values_of(column, task)
