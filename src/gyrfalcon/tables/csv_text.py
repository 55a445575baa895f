"""CSV files as people have them: any delimiter, decimal commas, byte order marks, and words for what is wrong."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from pathlib import Path
from typing import Any

from gyrfalcon.data.arrow import arrow_package
from gyrfalcon.data.csv_file import check_header

from .columns import check_names

DELIMITERS = (",", ";", "\t", "|")
HEAD = 1 << 16  # bytes after the first line that are looked at
LONGEST = 1 << 24  # bytes of a first line
LINES = 20
_NULLS = ("", "?", "NA", "N/A", "#N/A", "NaN", "nan", "n/a", "NULL", "null", "None", "-NaN", "-nan", "<NA>")


def read_csv(path: Path, delimiter: str | None, most_columns: int) -> dict[str, Any]:
    """Arrow columns by name; empty cells and the usual words for them are missing, ISO dates are dates."""
    pa = arrow_package()
    from pyarrow import csv as arrow_csv

    head = _head(path)
    delimiter = sniff(head) if delimiter is None else {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character or 'tab', got {delimiter!r}")
    head = head.lstrip("\r\n")
    width = _widths(head, delimiter)[0]
    if width > most_columns:
        raise ValueError(f"{path} has {width:,} columns, and tables have at most {most_columns:,}")
    try:
        names = next(csv.reader(head.splitlines(), delimiter=delimiter))
    except (csv.Error, TypeError) as error:
        raise ValueError(f"{path} cannot be read as CSV with delimiter {delimiter!r}: {error}") from error
    other = sniff(head)
    if len(names) == 1 and other in names[0] and other != delimiter:
        raise ValueError(f"{path} has one column, {names[0][:80]!r}, with delimiter {delimiter!r}: try {other!r}")
    check_header(str(path), names)
    check_names(names, str(path))
    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(use_threads=False),  # errors then have the number of the row
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values='"' in head),
            convert_options=arrow_csv.ConvertOptions(
                null_values=_NULLS, strings_can_be_null=True, decimal_point=_decimal_point(head, delimiter)
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as CSV with delimiter {delimiter!r}: {error}") from error
    return dict(zip(table.column_names, table.columns, strict=True))


def _head(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.readline(LONGEST) + file.read(HEAD)
            more = bool(file.read(1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as gzip: {error}") from error
    if not content.strip():
        raise ValueError(f"{path} is empty")
    if more:  # the last line is cut
        content = content[: content.rindex(b"\n") + 1] if b"\n" in content else content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): convert it") from None
    if "\0" in text:
        raise ValueError(f"{path} holds zero bytes and is no text file")
    return text


def sniff(head: str) -> str:
    """The delimiter that cuts the first lines into equally many parts, the most of all; a comma if none does.

    >>> sniff("a;b\\n1,5;2\\n3;4\\n")
    ';'
    """
    widths = {delimiter: _widths(head, delimiter) for delimiter in DELIMITERS}
    equal = {one: found[0] for one, found in widths.items() if found[0] > 1 and len(set(found)) == 1}
    widest = equal or {one: found[0] for one, found in widths.items()}
    return max(widest, key=widest.__getitem__)


def _widths(head: str, delimiter: str) -> list[int]:
    """Into how many parts a delimiter cuts the first lines; those within quotation marks cut nothing."""
    lines = re.sub(r'"[^"]*"', "", head).splitlines()[:LINES]
    return [1 + line.count(delimiter) for line in lines if line] or [1]


def _decimal_point(head: str, delimiter: str) -> str:
    """A comma where the lines have numbers such as 1,5 and none such as 1.5."""
    cell = rf"(?:^|{re.escape(delimiter)})\"?-?\d+{{}}\d+\"?(?={re.escape(delimiter)}|\r?$)"
    if delimiter == "," or re.search(cell.format(r"\."), head, re.MULTILINE):
        return "."
    return "," if re.search(cell.format(","), head, re.MULTILINE) else "."
