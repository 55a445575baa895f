"""How the cells of a column of text are written: numbers with separators and symbols, and dates."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from .columns import DAY, Array, Column

DECIMALS = (".", ",")
THOUSANDS = ("", ",", ".", " ", "'")
_CODES = [
    "USD",
    "EUR",
    "GBP",
    "JPY",
    "CHF",
    "CNY",
    "INR",
    "CAD",
    "AUD",
    "NZD",
    "SEK",
    "NOK",
    "DKK",
    "CZK",
    "PLN",
    "HUF",
    "BRL",
    "MXN",
    "ZAR",
    "RUB",
    "TRY",
    "KRW",
]
_WORDS = ("US$", "A$", "C$", "R$", "kr.", "kr", "Fr.", "zł", "Kč", "Ft", *_CODES)
_SYMBOL = "|".join(map(re.escape, _WORDS)) + "|[$€£¥₹₽₩₺₴₦฿₱₪]"
_SPACE = "\u00a0\u202f\u2009 "  # no-break, narrow and thin spaces stand between thousands
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−])?\s*(?P<before>{_SYMBOL})?\s*(?P<inner>[-+−])?"
    rf"(?P<body>[\d.,'’{_SPACE}]*\d(?:[eE][-+]?\d+)?)\s*(?P<after>%|‰|{_SYMBOL})?(?P<close>\))?"
)
_PLAIN = str.maketrans(dict.fromkeys(_SPACE, " ") | {"’": "'"})
# Words for a missing value, in columns of numbers and dates.
MISSING = {"-", "–", "—", "--", "---", ".", "n.a.", "n/a", "na", "k.a.", "none", "null", "nan", "#n/a", "#div/0!"}
_EPOCH = datetime.datetime(1970, 1, 1)
_FIELDS = {
    "%d": "day", "%m": "month", "%Y": "year", "%y": "two-digit year", "%b": "month", "%B": "month",
    "%H": "hour", "%I": "hour", "%M": "minute", "%S": "second", "%f": "fraction", "%p": "AM/PM", "%z": "offset",
}  # fmt: skip


class ReadingWarning(UserWarning):
    """Cells could be read in more than one way, and one was taken by a rule, which the message tells.

    >>> import gyrfalcon as gf, warnings
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     _ = gf.TablePreprocessor().fit({"sold": ["03/04/2024", "05/06/2024"] * 3})
    >>> print(told[0].message)
    column 'sold' is read as dates, month/day/year, such as 03/04/2024; no day is above 12, and between slashes the \
month comes first: set date_format if it is not
    """


@dataclass(frozen=True)
class Format:
    """How one cell of text is read; `kind` is that of the column it makes."""

    kind: ClassVar[str]

    def value(self, text: str) -> float:
        """The cell as a number, NaN if it is not written in this way."""
        raise NotImplementedError

    def values(self, cells: Array) -> Array:
        """Cells of text or None as float64, NaN for None and for what cannot be read; equal cells are read once."""
        known: dict[Any, float] = {None: np.nan}
        for cell in set(cells.tolist()) - {None}:
            known[cell] = self.value(cell)
        return np.fromiter((known[cell] for cell in cells.tolist()), dtype=np.float64, count=len(cells))

    def to_dict(self) -> dict[str, str]:
        """What a model file keeps."""
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(description: dict[str, str]) -> Format:
        """What `to_dict` described; ValueError for anything else."""
        known: type[Format] = {"number": NumberFormat, "date": DateFormat}[description["kind"]]
        given = {name: value for name, value in description.items() if name != "kind"}
        if not all(isinstance(value, str) for value in given.values()):
            raise ValueError(f"a format is described by text, got {given}")
        return known(**given)


@dataclass(frozen=True)
class NumberFormat(Format):
    """Numbers with a decimal separator, a separator between thousands and a symbol, which may be left out.

    Where the fit has seen no thousands, the other of point and comma may stand between them.
    Percentages stay what is written: 19.6% is 19.6.

    >>> NumberFormat(",", ".", "€").value("-1.234,56 €"), NumberFormat(".", ",").value("(3,380)")
    (-1234.56, -3380.0)
    """

    kind = "number"
    decimal: str = "."
    thousands: str = ""
    symbol: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS or self.thousands not in THOUSANDS or self.decimal == self.thousands:
            raise ValueError(f"numbers have one of {DECIMALS} as decimal separator, got {self}")

    def value(self, text: str) -> float:
        parts = split_number(text)
        thousands = self.thousands or ("," if self.decimal == "." else ".")
        if parts is None or not grouping(self.decimal, thousands).fullmatch(parts[1]):
            return math.nan
        body = parts[1].replace(thousands, "")
        number = parts[0] * float(body.replace(self.decimal, "."))
        return number if math.isfinite(number) else math.nan

    def __str__(self) -> str:
        said = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
        thousands = f"{said[self.thousands]} between thousands" if self.thousands else ""
        decimal = "a decimal comma" if self.decimal == "," else ""
        symbol = {"%": "percent signs"}.get(self.symbol, self.symbol)
        described = [part for part in (decimal, thousands, symbol) if part]
        return "numbers" + (f" with {', '.join(described)}" if described else "")


@dataclass(frozen=True)
class DateFormat(Format):
    """Dates and times by a pattern as in `datetime.strptime`; those with an offset become UTC.

    >>> DateFormat("%d.%m.%Y").value("02.01.1970"), str(DateFormat("%m/%d/%Y"))
    (1.0, 'dates, month/day/year')
    """

    kind = "date"
    pattern: str

    def __post_init__(self) -> None:
        if not {"%Y", "%y", "%G", "%c", "%x"} & set(re.findall(r"%.", self.pattern)):
            raise ValueError(f"date_format: {self.pattern!r} has no year: write it like %d.%m.%Y or %m/%d/%y")
        try:
            datetime.datetime.strptime(_EPOCH.replace(tzinfo=datetime.UTC).strftime(self.pattern), self.pattern)
        except ValueError as error:
            raise ValueError(f"date_format: {self.pattern!r} is no pattern of dates: {error}") from None

    def value(self, text: str) -> float:
        try:
            read = datetime.datetime.strptime(text.strip(), self.pattern)
        except (ValueError, OverflowError):
            return math.nan
        if read.tzinfo is not None:
            read = read.astimezone(datetime.UTC).replace(tzinfo=None)
        since = read - _EPOCH
        return since.days + (since.seconds * 1_000_000 + since.microseconds) / DAY

    def __str__(self) -> str:
        return "dates, " + re.sub(r"%.", lambda found: _FIELDS.get(found[0], found[0]), self.pattern)


def split_number(text: str) -> tuple[float, str, str] | None:
    """The sign, the digits with their separators and the symbol of a number, None for what is none.

    >>> split_number("-$3,380.34"), split_number("12 apples")
    ((-1.0, '3,380.34', '$'), None)
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None or bool(found["open"]) != bool(found["close"]) or (found["sign"] and found["inner"]):
        return None
    if found["before"] and found["after"]:
        return None
    negative = bool(found["open"]) != ((found["sign"] or found["inner"] or "+") in "-−")
    symbol = found["after"] or found["before"] or ""
    return -1.0 if negative else 1.0, found["body"].translate(_PLAIN), symbol


@lru_cache
def grouping(decimal: str, thousands: str) -> re.Pattern[str]:
    """Digits with these separators; a group before a separator of thousands never begins with zero."""
    whole = r"\d+"
    if thousands:
        cut = re.escape(thousands)
        whole = rf"(?:[1-9]\d{{0,2}}(?:{cut}\d{{2,3}})*{cut}\d{{3}}|\d+)"
    return re.compile(rf"(?:{whole}(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][-+]?\d+)?")


def is_word_for_missing(cell: str | None) -> bool:
    """Whether a cell among numbers or dates says that there is none."""
    return cell is None or cell.strip().lower() in MISSING


def formatted(
    column: Column, form: Format, most_unreadable: float, words: Collection[str] = ()
) -> tuple[Column, int, str]:
    """A column of text as what its format makes of it; how many cells could not be read, and the first of them.

    `words` are known to be none. More than a share of `most_unreadable` of other cells is an error.
    """
    cells = column.values if column.kind == "category" else column.as_text()
    values = form.values(cells)
    known = (is_word_for_missing(cell) or cell in words for cell in cells)
    wrong = np.isnan(values) & ~np.fromiter(known, dtype=bool, count=len(cells))
    count, first = int(wrong.sum()), int(wrong.argmax())
    if count > most_unreadable * len(cells):
        raise ValueError(
            f"column {column.name!r} was to hold {form}, but row {first} holds {cells[first]!r}: write it as in the fit"
        )
    return Column(column.name, form.kind, values), count, str(cells[first]) if count else ""
