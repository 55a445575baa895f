"""Tables in files: CSV, Parquet, Feather, NPZ, libsvm and ARFF, each read whole into named columns."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data.arrow import arrow_package

from .columns import check_names
from .csv_text import read_csv

Columns = dict[str, Any]

MOST_COLUMNS = 20_000  # a table with more is a matrix that was written as text
DENSE_NUMBERS = 1 << 28  # of a sparse file


def read_table(
    path: str | os.PathLike[str], *, delimiter: str | None = None, features: Sequence[str] | None = None
) -> Columns:
    """The columns of a file by name, for TableModel.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv, .txt (or these with .gz), .parquet, .pq, .feather, .arrow, .ipc, .npz, .libsvm, .svm or
        .arff. Arrays of a .npz file are columns, matrices several: X0, X1... of X. libsvm files have f1, f2... and
        target.
    delimiter : str, optional
        Between the columns of a CSV file; found in its first lines if not given.
    features : sequence of str, optional
        The columns that are needed: those that a libsvm file ends without are zeros.

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
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    suffix = next((s for s in reversed(path.suffixes) if s.lower() != ".gz"), "").lower()
    if suffix in (".csv", ".tsv", ".txt"):
        columns = read_csv(path, delimiter, MOST_COLUMNS)
    elif suffix in _READERS:
        columns = _READERS[suffix](path)
    elif suffix in (".libsvm", ".svm"):
        columns = _libsvm(path, features)
    else:
        raise ValueError(
            f"{path} is none of the files that can be read: .csv, .tsv, .txt, .libsvm, {', '.join(_READERS)}"
        )
    if not columns or len(next(iter(columns.values()))) == 0:
        raise ValueError(f"{path} has no rows")
    check_width(path, len(columns))
    return columns


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
    ".npz": _npz,
    ".arff": _arff,
}
