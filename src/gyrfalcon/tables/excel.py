"""Excel files: one sheet, whose first row that is not empty holds the names of the columns."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.encoding.columns import check_names
from gyrfalcon.encoding.formats import ReadingWarning

_ERRORS = {"#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", ""}


def read_excel(path: Path, sheet: str | None = None) -> dict[str, Any]:
    """The columns of a sheet; cells of formulas hold what Excel computed last, and errors are missing values."""
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError("reading Excel files needs openpyxl: pip install 'gyrfalcon[excel]'") from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an Excel file: {error}") from error
    try:
        names = book.sheetnames
        if sheet is not None and sheet not in names:
            raise ValueError(f"{path} has no sheet {sheet!r}: it has {', '.join(names)}")
        if sheet is None and len(names) > 1:
            words = f"{path} has {len(names)} sheets, and {names[0]!r} is read: set sheet to read another"
            warnings.warn(words, ReadingWarning, stacklevel=3)
        rows = [
            row for row in book[sheet or names[0]].iter_rows(values_only=True) if any(cell is not None for cell in row)
        ]
    finally:
        book.close()
    if not rows:
        raise ValueError(f"{path} is empty")
    used = [place for place, name in enumerate(rows[0]) if _present(name)]
    heads = [str(rows[0][place]) for place in used]
    check_names(heads, str(path))
    return {head: _cells([row[place] for row in rows[1:]]) for head, place in zip(heads, used, strict=True)}


def _present(cell: Any) -> bool:
    return cell is not None and cell not in _ERRORS


def _cells(values: list[Any]) -> Any:
    out = np.empty(len(values), dtype=object)
    out[:] = [value if _present(value) else None for value in values]
    return out
