"""CSV files as people have them: any delimiter, decimal separator and encoding, and words for what is wrong."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gyrfalcon.data.arrow import arrow_package
from gyrfalcon.data.csv_file import check_header
from gyrfalcon.encoding.columns import check_names
from gyrfalcon.encoding.formats import DECIMALS, ReadingWarning
from gyrfalcon.encoding.inference import decimal_evidence

DELIMITERS = (",", ";", "\t", "|")
HEAD = 1 << 16  # bytes after the first line that are looked at
LONGEST = 1 << 24  # bytes of a first line
LINES = 20
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_BLANKS = tuple(" " * count for count in range(1, 9))
_NULLS = ("", *_BLANKS, "?", "NA", "N/A", "#N/A", "NaN", "nan", "n/a", "NULL", "null", "None", "-NaN", "-nan", "<NA>")


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, as far as its first lines tell."""

    delimiter: str
    decimal: str | None
    encoding: str
    names: list[str]
    quoted: bool


def dialect_of(
    path: Path, *, delimiter: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Dialect:
    """The dialect of a file; what is given is taken for granted, and the rest is found in its first lines.

    The decimal separator is None where no number tells.
    """
    if decimal is not None and decimal not in DECIMALS:
        raise ValueError(f"decimal must be one of {DECIMALS}, got {decimal!r}")
    head, encoding = _head(path, encoding)
    delimiter = sniff(head) if delimiter is None else {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character or 'tab', got {delimiter!r}")
    head = head.lstrip("\r\n")
    try:
        names, *rows = csv.reader(head.splitlines(keepends=True), delimiter=delimiter)
    except (csv.Error, TypeError) as error:
        raise ValueError(f"{path} cannot be read as CSV with delimiter {delimiter!r}: {error}") from error
    other = sniff(head)
    if len(names) == 1 and other in names[0] and other != delimiter:
        raise ValueError(f"{path} has one column, {names[0][:80]!r}, with delimiter {delimiter!r}: try {other!r}")
    decimal = decimal or decimal_evidence(cell for row in rows for cell in row)
    return Dialect(delimiter, decimal, encoding, names, '"' in head)


def read_csv(path: Path, dialect: Dialect, most_columns: int, text: Collection[str] = ()) -> dict[str, Any]:
    """Arrow columns by name; empty cells and the usual words for them are missing, ISO dates are dates.

    Columns in `text` are text whatever they hold.
    """
    pa = arrow_package()
    width = len(dialect.names)
    if width > most_columns:
        raise ValueError(f"{path} has {width:,} columns, and tables have at most {most_columns:,}")
    check_header(str(path), dialect.names)
    check_names(dialect.names, str(path))
    try:
        table = _read(path, dialect, text)
        if any(pa.types.is_binary(kind) for kind in table.schema.types):  # bytes after the first lines are not UTF-8
            table = _read(path, replace(dialect, encoding=_guessed(path, path.read_bytes())), text)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as CSV with delimiter {dialect.delimiter!r}: {error}") from error
    return dict(zip(table.column_names, table.columns, strict=True))


def _read(path: Path, dialect: Dialect, text: Collection[str]) -> Any:
    pa = arrow_package()
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        path,
        # Errors have the number of the row if there are no threads.
        read_options=arrow_csv.ReadOptions(use_threads=False, encoding=dialect.encoding),
        parse_options=arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quoted),
        convert_options=arrow_csv.ConvertOptions(
            null_values=_NULLS,
            strings_can_be_null=True,
            decimal_point=dialect.decimal or ".",
            column_types={name: pa.string() for name in text if name in dialect.names},
        ),
    )


def _head(path: Path, encoding: str | None) -> tuple[str, str]:
    """The first lines, and the encoding."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.readline(LONGEST) + file.read(HEAD)
            more = bool(file.read(1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as gzip: {error}") from error
    if not content.strip():
        raise ValueError(f"{path} is empty")
    if encoding is None:
        encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    wide = len("a".encode(encoding + "-le")) if encoding in ("utf-16", "utf-32") else 1
    if more and wide == 1:  # the last line is cut
        content = content[: content.rindex(b"\n") + 1] if b"\n" in content else content
    elif more:
        content = content[: len(content) // wide * wide]
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except LookupError:
        raise ValueError(f"encoding: Python knows none called {encoding!r}: try utf-8, cp1252 or utf-16") from None
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise ValueError(f"{path} is not {encoding} text ({error.reason} at byte {error.start})") from None
        encoding = _guessed(path, content)
        text = content.decode(encoding)
    if more and wide > 1:
        text = text[: text.rindex("\n") + 1] if "\n" in text else text
    if "\0" in text:
        raise ValueError(f"{path} holds zero bytes and is no text file")
    return text, encoding


def _guessed(path: Path, content: bytes) -> str:
    """The encoding of text that is not UTF-8: that of Windows, or Latin-1, which all bytes are."""
    encoding = "cp1252"
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
    words = f"{path} is not UTF-8, and it is read as {encoding}: set encoding if it is another"
    warnings.warn(words, ReadingWarning, stacklevel=2)
    return encoding


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
