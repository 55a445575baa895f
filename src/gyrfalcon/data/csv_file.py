"""CSV files, converted to Parquet once: numbers are parsed on the first pass and not on the hundredth."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.progress import Bar

from .arrow import arrow_package, stamp
from .atomic import replacing
from .many import CONVERTED
from .parquet import ParquetSource

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_MARK = b"gyrfalcon.csv"  # under which a conversion remembers what it was made from
_GROUP_ROWS = 1 << 17
_BLOCK_BYTES = 4 << 20


def open_csv(
    path: str,
    features: Sequence[str] | None = None,
    without: Sequence[str] = (),
    dtype: Any = np.float32,
    cache: str | os.PathLike[str] | None = None,
) -> ParquetSource:
    """A CSV file with a header, by way of a Parquet file beside it or in the folder `cache`.

    The Parquet file is made again when size or time of the CSV file have changed.
    """
    converted = Path(cache or Path(path).parent) / f"{Path(path).name}{CONVERTED}"
    mark = " ".join(map(str, stamp(path))).encode()
    if not _is_fresh(converted, mark):
        try:
            _convert(path, converted, mark)
        except PermissionError as error:
            raise PermissionError(
                f"{converted}: cannot be written, to hold {path} as Parquet: give a folder as cache"
            ) from error
    return ParquetSource(str(converted), features, without, dtype, where=path)


def _is_fresh(converted: Path, mark: bytes) -> bool:
    pa = arrow_package()
    from pyarrow import parquet

    try:
        return (parquet.read_schema(converted).metadata or {}).get(_MARK) == mark
    except (OSError, pa.ArrowException):
        return False


def _convert(path: str, converted: Path, mark: bytes) -> None:
    pa = arrow_package()
    try:
        with _reader(path, {}) as (reader, _):
            schema = reader.schema
        check_header(path, schema.names)
        types = {field.name: pa.float64() if pa.types.is_null(field.type) else field.type for field in schema}
        try:
            _write(path, converted, types, mark)
        except pa.ArrowInvalid:  # whole numbers in the first block, and fractions later?
            _write(path, converted, {n: pa.float64() if pa.types.is_integer(t) else t for n, t in types.items()}, mark)
    except pa.ArrowException as error:
        found = re.search(r"CSV column #(\d+)", str(error))
        column = f", column {schema.names[int(found[1])]!r}" if found else ""
        raise ValueError(f"{path}{column} cannot be read as CSV: {error}") from error


def check_header(path: str, names: list[str]) -> None:
    try:
        [float(name) for name in names]
    except ValueError:
        return
    raise ValueError(f"{path} begins with numbers, {', '.join(names[:3])}...: add a first line of column names")


@contextmanager
def _reader(path: str, types: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """A reader of record batches, and the file below it, whose place says how far it has come."""
    pa = arrow_package()
    from pyarrow import csv

    with open(path, "rb") as raw:
        stream = pa.CompressedInputStream(raw, "gzip") if path.endswith(".gz") else raw
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter="\t" if ".tsv" in Path(path).suffixes else ","),
            convert_options=csv.ConvertOptions(column_types=types),
        )
        with reader:
            yield reader, raw


def _write(path: str, converted: Path, types: dict[str, Any], mark: bytes) -> None:
    pa = arrow_package()
    from pyarrow import parquet

    size = os.path.getsize(path)
    bar = Bar(f"converting {Path(path).name}", verbose=True)
    with bar, replacing(converted) as temporary, _reader(path, types) as (reader, raw):
        schema = reader.schema.with_metadata({_MARK: mark})
        with parquet.ParquetWriter(temporary, schema) as writer:
            waiting: list[Any] = []
            for batch in reader:
                waiting.append(batch)
                if sum(map(len, waiting)) >= _GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(waiting, reader.schema).cast(schema))
                    waiting.clear()
                bar.show(size, f"{raw.tell() / size:.0%}", raw.tell())
            writer.write_table(pa.Table.from_batches(waiting, reader.schema).cast(schema))
