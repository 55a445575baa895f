"""The column to predict: which task it means, and its values as that task wants them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.encoding.columns import Array, Column, as_column, listed
from gyrfalcon.encoding.formats import Format, formatted
from gyrfalcon.encoding.inference import Reading, infer_dates, infer_numbers

TASKS = ("regression", "classification")
FEW_NUMBERS = 10  # different whole numbers that are taken as classes
MANY_TEXTS = 100  # different texts that are too many for classes, if most occur once


def read_target(
    table: dict[str, Any], name: str, *, decimal: str | None = None, form: Format | None = None
) -> tuple[Column, Reading | None]:
    """The column of a table that is to be predicted, and how it is read if it is text that holds numbers.

    Parameters
    ----------
    table : dict of columns
    name : str
    decimal : "." or ",", optional
        See `TablePreprocessor`.
    form : Format, optional
        How the fit read it; found in the cells if not given.
    """
    if name not in table:
        raise ValueError(f"there is no column {name!r} to predict: the columns are {listed(list(table))}")
    column = as_column(name, table[name])
    if len(column.values) == 0:
        raise ValueError("the table has no rows")
    if column.kind == "empty":
        raise ValueError(f"the target {name!r} has no value in any row")
    reading = None
    if column.kind == "category" and form is None:
        reading = infer_numbers(column.values, decimal, strict=True)
        form = None if reading is None else reading.format
    if column.kind == "category" and form is not None:
        return formatted(column, form, 0.0)[0], reading
    if column.kind == "date" or (column.kind == "category" and infer_dates(column.values)):
        raise ValueError(f"the target {name!r} holds dates: write them as numbers to predict them")
    return column, reading


def task_of(column: Column) -> str:
    """Classification for text, booleans and whole numbers of at most ten values; else regression.

    >>> task_of(as_column("y", ["red", "blue"])), task_of(as_column("y", [0.5, 1.5, 2.0]))
    ('classification', 'regression')
    """
    if column.kind == "boolean":
        return "classification"
    present = column.values[~column.missing]
    different = np.unique(present)
    if column.kind == "number":
        few = len(different) <= FEW_NUMBERS and bool((different == np.floor(different)).all())
        return "classification" if few else "regression"
    if len(different) > max(MANY_TEXTS, len(present) // 2):
        raise ValueError(
            f"the target {column.name!r} holds {len(different):,} different texts, such as {present[0]!r}: "
            "too many for classes, and no numbers"
        )
    return "classification"


def values_of(column: Column, task: str) -> Array:
    """Numbers of a regression, labels of a classification, of the rows that are not missing."""
    if task not in TASKS:
        raise ValueError(f"task must be 'auto' or one of {TASKS}, got {task!r}")
    present = column.values[~column.missing]
    if task == "regression":
        if column.kind == "category":
            _refuse_text(column, present)
        return column.as_numbers()[~column.missing]
    if column.kind == "boolean":
        return present.astype(bool)
    if column.kind == "number":
        if (fractions := present != np.floor(present)).any():
            raise ValueError(
                f"the target {column.name!r} holds fractions such as {present[fractions][0]}, and classes are whole "
                "numbers or text: choose regression"
            )
        return present.astype(np.int64) if np.abs(present).max() < 2**53 else present
    return present


def _refuse_text(column: Column, present: Array) -> None:
    for text in present:
        try:
            float(text)
        except ValueError:
            raise ValueError(
                f"the target {column.name!r} holds text such as {text!r}, and regression predicts numbers: "
                "correct it, or choose classification"
            ) from None
