"""Tables in files: CSV, Excel, JSON, Parquet, Feather, NPZ, libsvm and ARFF, each read whole into named columns."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data.arrow import arrow_package
from gyrfalcon.data.many import files_of
from gyrfalcon.encoding.columns import DAY, as_column, check_names
from gyrfalcon.progress import Bar

from .csv_text import dialect_of, read_csv
from .excel import read_excel

Columns = dict[str, Any]

CSV_ENDINGS = (".csv", ".tsv", ".txt")
MOST_COLUMNS = 20_000  # a table with more is a matrix that was written as text
DENSE_NUMBERS = 1 << 28  # of a sparse file


def read_table(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    delimiter: str | None = None,
    features: Sequence[str] | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    text: Collection[str] = (),
) -> Columns:
    """The columns of a file by name, for TableModel.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv, .txt (or these with .gz), .xlsx, .jsonl, .ndjson, .json, .parquet, .pq, .feather, .arrow,
        .ipc, .npz, .libsvm, .svm or .arff. Arrays of a .npz file are columns, matrices several: X0, X1... of X. libsvm
        files have f1, f2... and target. JSON is one object per row, in lines or in one list. A list of paths, a pattern
        such as ``trips/*.csv`` or a folder of files of one kind is one table.
    delimiter : str, optional
        Between the columns of a CSV file; found in its first lines if not given.
    features : sequence of str, optional
        The columns that are needed: those that a libsvm file ends without are zeros.
    decimal : "." or ",", optional
        The decimal separator of a CSV file; found in its first lines if not given.
    encoding : str, optional
        Of a CSV file. UTF-8 and UTF-16 are recognized; what is neither is read as Windows-1252, and a ReadingWarning
        tells it.
    sheet : str, optional
        Of an Excel file; the first one if not given.
    text : collection of str
        Columns of a CSV file that stay text, whatever they hold.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gyrfalcon.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "homes.csv")
    ...     _ = path.write_text("area;city\\n50;Rome\\n;Oslo\\n")
    ...     list(read_table(path))
    ['area', 'city']
    """
    several = files_of(path, ENDINGS)
    if several is not None:
        given = {"delimiter": delimiter, "features": features, "decimal": decimal, "encoding": encoding}
        return join_columns({name: read_table(name, **given, sheet=sheet, text=text) for name in several})  # type: ignore[arg-type]
    path = Path(path)  # type: ignore[arg-type]  # no list of paths comes here
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    suffix = _suffix(path)
    csv = suffix in CSV_ENDINGS
    for name, value, applies in (
        ("delimiter", delimiter, csv),
        ("decimal", decimal, csv),
        ("encoding", encoding, csv),
        ("sheet", sheet, suffix == ".xlsx"),
    ):
        if value is not None and not applies:
            raise ValueError(f"{name}={value!r} does not apply to {suffix} files: leave it out")
    with Bar(f"reading {path.name}", verbose=True):
        if csv:
            dialect = dialect_of(path, delimiter=delimiter, decimal=decimal, encoding=encoding)
            columns = read_csv(path, dialect, MOST_COLUMNS, text)
        elif suffix == ".xlsx":
            columns = read_excel(path, sheet)
        elif suffix in _READERS:
            columns = _READERS[suffix](path)
        elif suffix in (".libsvm", ".svm"):
            columns = _libsvm(path, features)
        else:
            known = ", ".join((*CSV_ENDINGS, ".xlsx", ".libsvm", *_READERS))
            raise ValueError(f"{path} is none of the files that can be read: {known}")
    if not columns or len(next(iter(columns.values()))) == 0:
        raise ValueError(f"{path} has no rows")
    check_width(path, len(columns))
    return columns


def join_columns(tables: dict[str, Columns]) -> Columns:
    """The rows of several tables, one after the other, as one; all have the columns of the first.

    Cells of a column that is numbers in one file and text in another become text.
    """
    names = next(iter(tables.values()))
    for path, columns in tables.items():
        if set(columns) != set(names):
            other, first = min(set(columns) ^ set(names)), next(iter(tables))
            raise ValueError(f"{path} and {first} do not both have {other!r}: give files with the same columns")
    return {name: _joined(name, [columns[name] for columns in tables.values()]) for name in names}


def _joined(name: str, parts: Sequence[Any]) -> Any:
    found = [as_column(name, part) for part in parts]
    kinds = {column.kind for column in found if column.kind != "empty"}
    if len(kinds) > 1 and "date" in kinds:
        raise ValueError(f"column {name!r} holds dates in some files and {(kinds - {'date'}).pop()}s in others")
    if kinds == {"date"}:
        return _dates(np.concatenate([column.values for column in found]))
    if "category" in kinds:
        return np.concatenate([column.as_text() for column in found])
    numbers = np.concatenate([column.values for column in found])
    return numbers.astype(bool) if kinds == {"boolean"} and not np.isnan(numbers).any() else numbers


def _dates(days: Any) -> Any:
    missing = np.isnan(days)
    out = (np.where(missing, 0.0, days) * DAY).round().astype("datetime64[us]")
    out[missing] = np.datetime64("NaT")
    return out


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called as CSV files are."""
    return _suffix(Path(path)) in CSV_ENDINGS


def _suffix(path: Path) -> str:
    return next((suffix for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "").lower()


def check_width(path: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {columns:,} columns, and tables have at most {MOST_COLUMNS:,}: "
            "fit such a matrix with KernelRegressor or KernelClassifier in Python"
        )


def _of_arrow(path: Path, kind: str, read: Callable[[], Any]) -> Columns:
    pa = arrow_package()
    try:
        table = read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as {kind}, it may be cut short: {error}") from error
    check_names(table.column_names, str(path))
    return dict(zip(table.column_names, table.columns, strict=True))


def _parquet(path: Path) -> Columns:
    arrow_package()
    from pyarrow import parquet

    return _of_arrow(path, "Parquet", lambda: parquet.ParquetFile(path).read())


def _feather(path: Path) -> Columns:
    arrow_package()
    from pyarrow import feather

    return _of_arrow(path, "Feather", lambda: feather.read_table(path))


def _json(path: Path) -> Columns:
    """Objects in lines, or one list of them; objects within become columns of their own, called outer.inner."""
    pa = arrow_package()
    from pyarrow import json as arrow_json

    def read() -> Any:
        with open(path, "rb") as file:
            listed = file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        if not listed:
            return arrow_json.read_json(path)
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
        if not all(isinstance(row, dict) for row in rows):
            raise pa.ArrowInvalid("a list of objects is needed, one for each row")
        return pa.Table.from_pylist(rows, pa.schema([]) if not rows else None)

    try:
        columns = _of_arrow(path, "JSON", read)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    table = pa.table(columns)
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    check_names(table.column_names, str(path))
    return dict(zip(table.column_names, table.columns, strict=True))


def _npz(path: Path) -> Columns:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as NPZ: {error}") from error
    columns: Columns = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{path}: the array {name!r} has shape {array.shape}: columns and matrices can be read")
        if array.ndim == 2:
            check_width(path, array.shape[1])
        parts = {name: array} if array.ndim == 1 else {f"{name}{j}": array[:, j] for j in range(array.shape[1])}
        check_names([*columns, *parts], str(path))
        columns |= parts
    return columns


def _libsvm(path: Path, features: Sequence[str] | None) -> Columns:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), zero_based=False)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} cannot be read as libsvm: {error}") from error
    numbers = [int(found[1]) for name in features or () if (found := re.fullmatch(r"f(\d+)", name))]
    width = max([X.shape[1], *numbers])
    check_width(path, width)
    if X.shape[0] * width > DENSE_NUMBERS:
        raise ValueError(
            f"{path} is too large for a table, {X.shape[0]:,} × {width:,}: fit the sparse matrix in Python"
        )
    X.resize(X.shape[0], width)
    dense = X.toarray()
    return {f"f{j + 1}": dense[:, j] for j in range(width)} | {"target": y}


def _arff(path: Path) -> Columns:
    from scipy.io import arff

    try:
        with open(path, encoding="utf-8-sig") as file:
            records, meta = arff.loadarff(file)
    except (arff.ArffError, NotImplementedError, ValueError, StopIteration, IndexError) as error:
        raise ValueError(f"{path} cannot be read as ARFF: {error}") from error
    names = meta.names()
    check_names(names, str(path))
    return {name: _decoded(records[name]) for name in names}


def _decoded(cells: Any) -> Any:
    if cells.dtype.kind != "S":
        return cells
    text = [cell.decode() for cell in cells]
    return np.array([None if cell == "?" else cell for cell in text], dtype=object)


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".feather": _feather,
    ".arrow": _feather,
    ".ipc": _feather,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
    ".npz": _npz,
    ".arff": _arff,
}
ENDINGS = (*CSV_ENDINGS, *(f"{ending}.gz" for ending in CSV_ENDINGS), ".xlsx", ".libsvm", ".svm", *_READERS)
