"""Columns of tables of any kind, as arrays of a few kinds: numbers, booleans, dates and categories."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

Array = np.ndarray[Any, Any]

DAY = 86_400e6  # microseconds


@dataclass(frozen=True)
class Column:
    """The cells of a column: float64 with NaN where a value is missing, or of categories text with None.

    `kind` is "number", "boolean" (zeros and ones), "date" (days since 1970), "category" or "empty" (all missing).
    """

    name: str
    kind: str
    values: Array

    @property
    def missing(self) -> Array:
        if self.kind == "category":
            return np.fromiter((value is None for value in self.values), dtype=bool, count=len(self.values))
        return np.isnan(self.values)

    def as_text(self) -> Array:
        """Categories, whatever the column holds: whole numbers without a point, booleans as true and false."""
        if self.kind == "category":
            return self.values
        if self.kind == "date":
            raise ValueError(f"column {self.name!r} holds dates and was to hold categories: write them as text")
        return np.array([_text(value, self.kind) for value in self.values.tolist()], dtype=object)

    def as_numbers(self) -> Array:
        if self.kind == "category":
            return self._parsed(float, "numbers")
        if self.kind == "date":
            raise ValueError(f"column {self.name!r} holds dates and was to hold numbers")
        return self.values

    def as_days(self) -> Array:
        """Days since 1970, also of text such as 2026-11-16 or 2026-11-16T08:30."""
        if self.kind == "category":
            return self._parsed(lambda text: float(_days(np.array(text, dtype="datetime64"))), "dates")
        if self.kind not in ("date", "empty"):
            raise ValueError(f"column {self.name!r} holds {self.kind}s and was to hold dates")
        return self.values

    def _parsed(self, parse: Any, what: str) -> Array:
        out = np.full(len(self.values), np.nan)
        for row, text in enumerate(self.values):
            try:
                out[row] = np.nan if text is None else parse(text)
                if np.isinf(out[row]):
                    raise ValueError
            except (ValueError, OverflowError):
                raise ValueError(f"column {self.name!r} was to hold {what}, but row {row} holds {text!r}") from None
        return out


def named_columns(table: Any) -> dict[str, Any]:
    """Columns by name, as the table has them: of a dict, an Arrow table, a pandas or a polars frame."""
    if isinstance(table, Mapping):
        names: list[Any] = list(table)
        columns = list(table.values())
    elif hasattr(table, "column_names"):  # pyarrow
        names, columns = list(table.column_names), list(table.columns)
    else:
        names = list(table.columns)
        columns = [] if len(set(names)) < len(names) else [table[name] for name in names]
    check_names([str(name) for name in names], "the table")
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the columns of the table have different lengths, {sorted(lengths)}: cut or fill them")
    return {str(name): column for name, column in zip(names, columns, strict=True)}


def is_table(X: Any) -> bool:
    """Whether X has columns with names, which sparse matrices of SciPy do not, though some have `columns`."""
    if issparse(X):
        return False
    return isinstance(X, Mapping) or hasattr(X, "column_names") or (hasattr(X, "columns") and hasattr(X, "shape"))


def check_names(names: Sequence[str], where: str) -> None:
    """Each name once."""
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"{where} has several columns called {repeated!r}: rename them")


def listed(names: Sequence[str]) -> str:
    """The first of them, with quotation marks where spaces would not be seen.

    >>> listed(["x", " y", *map(str, range(9))])
    "x, ' y', 0, 1, 2, 3, 4, 5 and 3 more"
    """
    shown = ", ".join(name if name and name == name.strip() else repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


def as_column(name: str, cells: Any) -> Column:
    """Cells of any container and type as a Column."""
    if type(cells).__module__.partition(".")[0] == "pyarrow":
        cells = _of_arrow(name, cells)
    array = np.asarray(cells.to_numpy() if hasattr(cells, "to_numpy") else cells)
    if array.ndim != 1:
        raise ValueError(f"column {name!r} must have one cell a row, got shape {array.shape}")
    match array.dtype.kind:
        case "b":
            return Column(name, "boolean", array.astype(np.float64))
        case "i" | "u" | "f":
            return _numeric(name, "number", array.astype(np.float64))
        case "M":
            return _numeric(name, "date", _days(array))
        case "m":
            return _numeric(name, "number", _days(array) * 86_400)
        case "U":
            return _of_objects(name, array.astype(object))
        case "O":
            return _of_objects(name, array)
    raise TypeError(f"column {name!r} holds {array.dtype}: numbers, booleans, dates and text can be used")


def _numeric(name: str, kind: str, values: Array) -> Column:
    missing = np.isnan(values)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"column {name!r}, row {row} is {values[row]}: infinity is no value, leave the cell empty")
    return Column(name, "empty" if missing.all() else kind, values)


def _of_arrow(name: str, cells: Any) -> Any:
    import pyarrow as pa

    types, kind = pa.types, cells.type
    if types.is_dictionary(kind):
        cells, kind = cells.cast(kind.value_type), kind.value_type
    if types.is_null(kind):
        return np.full(len(cells), np.nan)
    if types.is_date(kind) or types.is_timestamp(kind):
        return cells.to_numpy()
    if types.is_time(kind):
        return cells.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.float64()).to_numpy() / 1e6
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return cells.cast(pa.float64(), safe=False).to_numpy()
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_duration(kind):
        return cells.to_numpy()
    if types.is_string_view(kind):
        return cells.cast(pa.string()).to_numpy()
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(f"column {name!r} holds bytes that are not UTF-8 text: convert the file to UTF-8")
    raise ValueError(f"column {name!r} holds {kind}: numbers, booleans, dates and text can be used, leave it out")


def _of_objects(name: str, array: Array) -> Column:
    missing = np.fromiter((_is_missing(value) for value in array), dtype=bool, count=len(array))
    present = array[~missing].tolist()
    values = np.full(len(array), np.nan)
    types = set(map(type, present))

    def all_are(*kinds: type) -> bool:
        return all(issubclass(one, kinds) for one in types)

    if not present:
        return Column(name, "empty", values)
    if all_are(bool, np.bool_) or all_are(numbers.Real, decimal.Decimal):
        values[~missing] = [float(value) for value in present]
        return _numeric(name, "boolean" if all_are(bool, np.bool_) else "number", values)
    if all_are(datetime.date, np.datetime64):
        values[~missing] = _days(np.array([_naive(value) for value in present], dtype="datetime64[us]"))
        return Column(name, "date", values)
    if wrong := next((one for one in types if not issubclass(one, (str, numbers.Real, datetime.date))), None):
        raise TypeError(f"column {name!r}: the argument must be a string, a number or a date, got {wrong.__name__}")
    text = np.full(len(array), None, dtype=object)
    text[~missing] = [str(value) for value in present]
    return Column(name, "category", text)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


def _naive(value: Any) -> Any:
    if getattr(value, "tzinfo", None) is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _days(array: Array) -> Array:
    """Days of datetime64 or timedelta64, NaN for NaT; whole days first, which do not overflow."""
    whole = array.astype(f"{array.dtype.kind}8[D]")
    rest = (array - whole).astype("m8[us]")
    return np.where(np.isnat(array), np.nan, whole.astype(np.int64) + rest.astype(np.int64) / DAY)


def _text(value: float, kind: str) -> str | None:
    if value != value:
        return None
    if kind == "boolean":
        return "true" if value else "false"
    return str(int(value)) if value.is_integer() else repr(value)
