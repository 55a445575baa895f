"""Write columns to files, completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ENDINGS = (".csv", ".parquet", ".feather")


def write_columns(path: Path, columns: dict[str, Any]) -> int:
    """Write named columns; returns the number of rows."""
    from gyrfalcon.data.arrow import arrow_package
    from gyrfalcon.data.atomic import replacing
    from gyrfalcon.encoding.columns import listed

    pa = arrow_package()
    from pyarrow import csv, feather, parquet

    table = pa.table(columns)
    write = {".csv": csv.write_csv, ".parquet": parquet.write_table, ".feather": feather.write_feather}
    with replacing(path) as temporary:
        try:
            write[path.suffix.lower()](table, str(temporary))
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} cannot hold all of {listed(table.column_names)}: {error}") from error
    return int(table.num_rows)
