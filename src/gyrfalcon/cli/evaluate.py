"""`gyrfalcon evaluate`: evaluate a model on a table that has the target."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

import gyrfalcon as gf
from gyrfalcon.tables.files import read_table
from gyrfalcon.tables.model import estimator_scores, rows_of
from gyrfalcon.tables.targets import read_target, values_of

from .options import REPORT_ENDINGS, Data, Delimiter, Json, Model, Report
from .predict import matrix
from .reporting import report_of
from .session import check_output, listing, tell
from .summary import parts
from .training import is_large

EXAMPLES = """
Examples:

gyrfalcon evaluate homes.safetensors sold_homes.csv

gyrfalcon evaluate homes.safetensors sold_homes.csv --report homes.html
"""


def command(model: Model, data: Data, report: Report = None, delimiter: Delimiter = None, json: Json = False) -> None:
    """Compare a model's predictions with the truth in a table.

    Give it rows that the model was not fitted to: those it knows say nothing about new ones.
    """
    check_output(report, REPORT_ENDINGS)
    loaded = gf.load(model)
    estimator, names, task, target = parts(loaded)
    if target is None:
        raise ValueError(f"{model} does not say which column it predicts: evaluate it in Python")
    X, y = _test(loaded, data, names, task, target, delimiter)
    scores = estimator_scores(estimator, X, y)
    if report is not None:
        again = ["gyrfalcon", "evaluate", model, data, "--report", report]
        again += [] if delimiter is None else ["--delimiter", delimiter]
        title = f"{target} of {data.name}"
        report_of(report, loaded, X, y, title=title, reproduce=shlex.join(map(str, again)))
    facts = {"command": "evaluate", "model": model, "data": data, "target": target, "task": task}
    facts |= {"test": scores, "report": report}
    said = [listing(f"{task} of {target}", scores), *([] if report is None else [f"written: {report}"])]
    tell(facts, json, lambda console: console.print(*said, sep="\n"))


def _test(model: Any, data: Any, names: list[str], task: str, target: str, delimiter: str | None) -> tuple[Any, Any]:
    if isinstance(model, gf.TableModel):
        table = read_table(data, delimiter=delimiter, features=names)
        rows, y = model.truth(table)
        return model.features(rows_of(table, rows)), y
    if is_large(data):
        opened = gf.data.open(data, target=target, features=names)
        return opened.X, opened.y
    table = read_table(data, delimiter=delimiter, features=names)
    column = read_target(table, target)
    return matrix(rows_of(table, np.flatnonzero(~column.missing)), names), values_of(column, task)
