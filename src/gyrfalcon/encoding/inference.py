"""Finding out how columns of text are written: which are numbers or dates, and in which format."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import Array, Column
from .formats import DateFormat, Format, NumberFormat, grouping, is_word_for_missing, split_number

SAMPLE = 1000  # different cells that are looked at before all are
READABLE = 0.95  # of the cells, in a column of numbers or dates with some other words in it
EXAMPLES = 100  # cells of which the longest is shown
WORDS = 50  # of those that cannot be read that are kept
MANY = 20  # different numbers or dates that such a column has, or else it holds categories
# In the order in which they are preferred where several read every cell.
_SEPARATORS = ((".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
_TIME = (
    r"(?:(?P<gap>T|,? )(?P<hour>\d{1,2}):\d{2}(?:(?P<second>:\d{2})(?P<fraction>\.\d{1,6})?)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<offset>Z| ?[-+]\d{2}:?\d{2})?)?"
)
_ENDS = (("half", "p"), ("offset", "z"))
_MONTH = re.compile(r"\d{4}-\d{2}")
_YEAR_FIRST = re.compile(rf"\d{{4}}(?P<cut>[-/.])\d{{1,2}}(?P=cut)\d{{1,2}}{_TIME}")
_YEAR_LAST = re.compile(rf"\d{{1,2}}(?P<cut>[-/.])\d{{1,2}}(?P=cut)(?P<year>\d{{4}}|\d{{2}}){_TIME}")
_SHORT_YEAR = re.compile(rf"\d{{2}}\.\d{{2}}\.\d{{2}}{_TIME}")  # 1.2.10 may be a version
_NAMED = re.compile(
    rf"(?:(?P<day>\d{{1,2}})(?P<cut>\.? |-)(?P<name>[A-Za-z]{{3,9}})(?P<cut2>,? |-)|"
    rf"(?P<first>[A-Za-z]{{3,9}}) \d{{1,2}}(?P<comma>,?) )(?P<year>\d{{4}}|\d{{2}}){_TIME}"
)


@dataclass(frozen=True)
class Reading:
    """How a column is read.

    Attributes
    ----------
    format : Format
    example : str
        A cell.
    rule : str
        Why it is read so, where its cells could be read in another way too; else empty.
    unreadable : int
        Cells that are neither missing nor written in this format, which count as missing.
    words : tuple of str
        Some of them.
    """

    format: Format
    example: str
    rule: str = ""
    unreadable: int = 0
    words: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What a model file keeps."""
        return dataclasses.asdict(self) | {"format": self.format.to_dict()}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Reading:
        """What `to_dict` described."""
        words = tuple(map(str, description["words"]))
        return cls(**description | {"format": Format.from_dict(description["format"]), "words": words})

    def __str__(self) -> str:
        rule = f"; {self.rule}" if self.rule else ""
        cells = "cell counts" if self.unreadable == 1 else "cells count"
        missing = f"; {self.unreadable:,} {cells} as missing, such as {self.words[0]!r}" if self.unreadable else ""
        return f"{self.format}, such as {self.example}{rule}{missing}"


def infer_formats(
    columns: Iterable[Column], *, decimal: str | None = None, dates: Mapping[str, str] | None = None, pattern: str = ""
) -> dict[str, Reading]:
    """The columns of text that hold numbers or dates, and how they are read.

    Where the cells of a column leave open which number of a date is the day, another column of dates decides if it
    can; else the month comes first between slashes, and the day between points and hyphens. Where they leave open
    whether 1,234 has a decimal comma, `decimal` decides, and else it is 1234.

    Parameters
    ----------
    columns : iterable of Column
    decimal : "." or ",", optional
    dates : dict of str to str, optional
        Patterns of the dates in some columns, as in `datetime.strptime`.
    pattern : str, optional
        One of them for every column that it can read.

    Examples
    --------
    >>> from gyrfalcon.encoding.columns import as_column
    >>> cells = {"sold": ["09/26/2024", "10/01/2024"], "price": ["$3,380.34", "$12.50"], "city": ["Rome", "Oslo"]}
    >>> found = infer_formats(as_column(name, values) for name, values in cells.items())
    >>> for name, reading in found.items():
    ...     print(f"{name}: {reading}")
    sold: dates, month/day/year, such as 09/26/2024
    price: numbers with commas between thousands, $, such as $3,380.34
    """
    given = dates or {}
    text = [column for column in columns if column.kind == "category" or column.name in given]
    found: dict[str, Reading] = {}
    undecided: dict[str, tuple[DateFormat, DateFormat]] = {}
    for column in text:
        cells = column.as_text()
        if column.name in given:
            found[column.name] = _checked(cells, DateFormat(given[column.name]), column.name)
            continue
        if pattern and (reading := _complete(cells, DateFormat(pattern))):
            found[column.name] = reading
            continue
        candidates = infer_dates(cells)
        if len(candidates) > 1:
            undecided[column.name] = candidates[0], candidates[1]
        elif reading := _complete(cells, candidates[0] if candidates else None) or infer_numbers(cells, decimal):
            found[column.name] = reading
    if pattern and not any(reading.format == DateFormat(pattern) for reading in found.values()):
        raise ValueError(f"date_format={pattern!r} reads no column of the table: leave it out, or correct it")
    decided = {_order(reading.format) for reading in found.values() if isinstance(reading.format, DateFormat)} - {""}
    by_name = {column.name: column for column in text}
    for name, choices in undecided.items():
        form, rule = _decide(choices, decided, decimal)
        reading = _complete(by_name[name].as_text(), form)
        if reading is not None:
            found[name] = dataclasses.replace(reading, rule=rule)
    return {column.name: found[column.name] for column in text if column.name in found}


def infer_numbers(cells: Array, decimal: str | None = None, *, strict: bool = False) -> Reading | None:
    """How cells of text are read as numbers; None if they are words, or whole numbers that were made text.

    >>> import numpy as np
    >>> print(infer_numbers(np.array(["1,5", "2,25"], dtype=object)))
    numbers with a decimal comma, such as 2,25
    """
    sample = _sample(cells)
    parts = [found for text in sample if (found := split_number(text)) and not re.match(r"0\d", found[1])]
    if not sample or len(parts) < READABLE * len(sample):
        return None
    bodies, symbols = [body for _, body, _ in parts], Counter(symbol for _, _, symbol in parts if symbol)
    if all(body.isdigit() for body in bodies) and not symbols and len(parts) == len(sample):
        return None  # codes
    ordered = sorted(_SEPARATORS, key=lambda pair: pair[0] != decimal) if decimal else list(_SEPARATORS)
    counts = [sum(bool(grouping(*pair).fullmatch(body)) for body in bodies) for pair in ordered]
    best = ordered[int(np.argmax(counts))]
    symbol = symbols.most_common(1)[0][0] if symbols else ""
    reading = _complete(cells, NumberFormat(*best, symbol), least=1.0 if strict else READABLE)
    if reading is None:
        return None
    others = {pair[0] for pair, count in zip(ordered, counts, strict=True) if count == max(counts)} - {best[0]}
    if others and any(re.search(r"[.,]", body) for body in bodies):
        other = "a decimal comma" if best[0] == "." else "a decimal point"
        return dataclasses.replace(reading, rule=f"it could also have {other}: set decimal if so")
    return reading


def decimal_evidence(texts: Iterable[str]) -> str | None:
    """The decimal separator of cells that can be read with one only; None if there are none, or some of each.

    >>> decimal_evidence(["1.234", "12,5", "26.09.2024"]), decimal_evidence(["1,234", "7"])
    (',', None)
    """
    seen = set()
    for text in texts:
        parts = split_number(text)
        if parts is None or parts[1].isdigit():
            continue
        readers = {pair[0] for pair in _SEPARATORS if grouping(*pair).fullmatch(parts[1])}
        seen |= readers if len(readers) == 1 else set()
    return seen.pop() if len(seen) == 1 else None


def infer_dates(cells: Array) -> list[DateFormat]:
    """The formats in which cells of text are dates: none, one, or two where day and month could be exchanged."""
    sample = _sample(cells)
    shapes = dict.fromkeys(pattern for text in sample[:20] for pattern in _patterns(text.strip()))
    counts = {pattern: _count(sample, DateFormat(pattern)) for pattern in shapes}
    most = max(counts.values(), default=0)
    if not sample or most < READABLE * len(sample):
        return []
    best = [DateFormat(pattern) for pattern, count in counts.items() if count == most]
    if len(best) > 1:  # a day above twelve may come after the sample
        counts = {form.pattern: _count(set(cells.tolist()) - {None}, form) for form in best}
        best = [form for form in best if counts[form.pattern] == max(counts.values())]
    return best[:2]


def _patterns(text: str) -> list[str]:
    """The patterns that one cell may have."""
    if _MONTH.fullmatch(text):
        return ["%Y-%m"]
    if found := _YEAR_FIRST.fullmatch(text):
        cut = found["cut"]
        return [f"%Y{cut}%m{cut}%d{_time(found)}"]
    if found := _YEAR_LAST.fullmatch(text):
        cut, year = found["cut"], "%Y" if len(found["year"]) == 4 else "%y"
        if cut == "." and year == "%y" and not _SHORT_YEAR.fullmatch(text):
            return []
        return [f"{first}{cut}{second}{cut}{year}{_time(found)}" for first, second in (("%m", "%d"), ("%d", "%m"))]
    if found := _NAMED.fullmatch(text):
        year = ("%Y" if len(found["year"]) == 4 else "%y") + _time(found)
        names = ("%b", "%B")
        if found["first"]:
            return [f"{name} %d{found['comma']} {year}" for name in names]
        return [f"%d{found['cut']}{name}{found['cut2']}{year}" for name in names]
    return []


def _time(found: re.Match[str]) -> str:
    if found["hour"] is None:
        return ""
    half, offset = (found[name] and f"{' ' * found[name].startswith(' ')}%{letter}" for name, letter in _ENDS)
    seconds = ":%S" + ".%f" * bool(found["fraction"]) if found["second"] else ""
    return f"{found['gap']}{'%I' if half else '%H'}:%M{seconds}{half or ''}{offset or ''}"


def _decide(choices: Sequence[DateFormat], decided: set[str], decimal: str | None) -> tuple[DateFormat, str]:
    """One of two formats with day and month exchanged, and the rule by which it was taken."""
    month_first, day_first = sorted(choices, key=lambda form: form.pattern.index("%d") < form.pattern.index("%m"))
    other = "set date_format if it is not"
    if len(decided) == 1:
        first = decided == {"month"}
        return month_first if first else day_first, f"day and month in the order of another column, {other}"
    if decimal == ",":
        return day_first, f"no day is above 12, and with decimal commas the day comes first: {other}"
    if "/" in month_first.pattern:
        return month_first, f"no day is above 12, and between slashes the month comes first: {other}"
    return day_first, f"no day is above 12, and between points or hyphens the day comes first: {other}"


def _order(form: Format) -> str:
    """Whether the day or the month comes first, of dates that end in their year."""
    pattern = getattr(form, "pattern", "")
    if not pattern.startswith(("%d", "%m")) or "%m" not in pattern:
        return ""
    return "day" if pattern.startswith("%d") else "month"


def _sample(cells: Array) -> list[str]:
    different = dict.fromkeys(cell for cell in cells[: 20 * SAMPLE].tolist() if not is_word_for_missing(cell))
    return list(itertools.islice(different, SAMPLE))


def _count(texts: Iterable[str], form: Format) -> int:
    return sum(value == value for value in map(form.value, texts))


def _checked(cells: Array, form: Format, name: str) -> Reading:
    reading = _complete(cells, form)
    if reading is None:
        example = next((cell for cell in cells if cell is not None and form.value(cell) != form.value(cell)), None)
        raise ValueError(f"date_format: column {name!r} does not hold {form}: it has the cell {example!r}")
    return reading


def _complete(cells: Array, form: Format | None, least: float = READABLE) -> Reading | None:
    """The reading of all cells in a format, if enough of them have it."""
    if form is None:
        return None
    different = {cell for cell in set(cells.tolist()) if not is_word_for_missing(cell)}
    readable = {cell for cell in different if (value := form.value(cell)) == value}
    present = sum(cell in different for cell in cells)
    wrong = [cell for cell in cells if cell in different and cell not in readable]
    if not readable or len(wrong) > (1 - least) * present or (wrong and len(readable) <= MANY):
        return None
    example = max(itertools.islice((cell for cell in cells if cell in readable), EXAMPLES), key=len)
    return Reading(form, example, unreadable=len(wrong), words=tuple(dict.fromkeys(wrong))[:WORDS])
