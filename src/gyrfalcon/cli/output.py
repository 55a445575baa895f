"""Columns to files, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gyrfalcon.data.arrow import arrow_package
from gyrfalcon.data.atomic import replacing

ENDINGS = (".csv", ".parquet", ".feather")


def write_columns(path: Path, columns: dict[str, Any]) -> int:
    """Write named columns; returns the number of rows."""
    pa = arrow_package()
    from pyarrow import csv, feather, parquet

    table = pa.table(columns)
    write = {".csv": csv.write_csv, ".parquet": parquet.write_table, ".feather": feather.write_feather}
    with replacing(path) as temporary:
        write[path.suffix.lower()](table, str(temporary))
    return int(table.num_rows)
