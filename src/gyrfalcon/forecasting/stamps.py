"""Time stamps and durations as people write them, put on a regular grid or refused by name."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.encoding.columns import as_column

MICROSECONDS = {"s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "D": 86_400 * 10**6, "W": 7 * 86_400 * 10**6}
CLOCK_CHANGE = np.timedelta64(2, "h")  # stamps that go back by no more look like a clock that was set back


def read_duration(name: str, value: Any) -> np.timedelta64:
    """A positive duration, such as "7D", "90min", a timedelta or a NumPy one.

    >>> read_duration("every", "7D")
    np.timedelta64(604800000000,'us')
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+)\s*(s|min|h|D|W)\s*", value)
        if found is None:
            raise ValueError(f"{name} must be a number and one of s, min, h, D and W, such as '7D', got {value!r}")
        duration = np.timedelta64(int(found[1]) * MICROSECONDS[found[2]], "us")
    elif isinstance(value, datetime.timedelta | np.timedelta64):
        duration = np.timedelta64(value, "us")
    else:
        raise TypeError(f"{name} must be a duration such as '7D' or a timedelta, got {value!r}")
    if duration <= np.timedelta64(0, "us"):
        raise ValueError(f"{name} must be positive, got {value!r}")
    return duration


def read_stamp(name: str, value: Any) -> np.datetime64:
    """One moment, in UTC if it has a time zone."""
    if isinstance(value, str):
        value = _parse(value, f"{name}={value!r}")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if not isinstance(value, datetime.date | np.datetime64):
        raise TypeError(f"{name} must be a moment such as '2018-01-01' or a datetime, got {value!r}")
    stamps: Array = np.array([value], dtype="datetime64[us]")
    if np.isnat(stamps[0]):
        raise ValueError(f"{name} must be a moment, got {value!r}")
    stamp: np.datetime64 = stamps[0]
    return stamp


def read_moment(name: str, value: Any) -> np.datetime64:
    """One moment; a year or a month is its beginning.

    >>> read_moment("split", "2018")
    np.datetime64('2018-01-01T00:00:00.000000')
    """
    if isinstance(value, str) and re.fullmatch(r"\d{4}(-\d{2})?", value.strip()):
        try:
            return np.datetime64(value.strip(), "us")
        except ValueError:  # a month that no year has
            pass
    return read_stamp(name, value)


def read_stamps(name: str, cells: Any, timezone: str | None) -> Array:
    """Stamps of a column as datetime64 of microseconds, in UTC if they have a time zone or one is given.

    Parameters
    ----------
    name : str
        Of the column.
    cells : column of dates, or of text such as 2018-01-01T06:00
    timezone : str, optional
        That of local times.
    """
    stamps, zoned = _parsed(name, cells)
    if np.isnat(stamps).any():
        row = int(np.argmax(np.isnat(stamps)))
        raise ValueError(f"time column {name!r}: row {row} has no time stamp: drop such rows")
    if timezone is None:
        return stamps
    if zoned:
        raise ValueError(f"timezone={timezone!r} is for local times, but column {name!r} has time zones: leave it out")
    return _from_local(name, stamps, timezone)


def _parsed(name: str, cells: Any) -> tuple[Array, bool]:
    """Stamps, and whether they came with time zones."""
    zoned = getattr(getattr(cells, "dtype", None), "tz", None) is not None
    zoned = zoned or getattr(getattr(cells, "dtype", None), "time_zone", None) is not None
    column = as_column(name, cells)
    if column.kind == "category":
        found = [None if text is None else _parse(text, f"column {name!r}, row {row}") for row, text in _rows(column)]
        zones = {stamp.tzinfo is not None for stamp in found if stamp is not None}
        if len(zones) > 1:
            raise ValueError(f"time column {name!r}: some stamps have a time zone and some have none: write all alike")
        naive = [
            None if stamp is None else stamp.astimezone(datetime.UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
            for stamp in found
        ]
        return np.array(naive, dtype="datetime64[us]"), True in zones
    if column.kind not in ("date", "empty"):
        raise ValueError(
            f"time column {name!r} holds {column.kind}s and was to hold dates: write seconds since 1970, for example, "
            "as values.astype('datetime64[s]')"
        )
    days = column.as_days()  # exact to the microsecond for some centuries around 1970
    stamps = np.rint(np.where(np.isnan(days), 0, days) * MICROSECONDS["D"]).astype(np.int64).astype("datetime64[us]")
    stamps[np.isnan(days)] = np.datetime64("NaT")
    return stamps, zoned


def _rows(column: Any) -> Any:
    return enumerate(column.values.tolist())


def _parse(text: str, where: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{where}: {text!r} is not a time such as 2018-01-01T06:00 or 2018-01-01 06:00+01:00"
        ) from None


def _from_local(name: str, stamps: Array, timezone: str) -> Array:
    """UTC of local times. Those that occur twice or never, when clocks change, are refused."""
    try:
        zone = zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"timezone must be a name such as 'Europe/Rome', got {timezone!r}") from None
    local = [stamp.replace(tzinfo=zone) for stamp in stamps.tolist()]
    early = np.array([stamp.utcoffset() for stamp in local], dtype="timedelta64[us]")
    late = np.array([stamp.replace(fold=1).utcoffset() for stamp in local], dtype="timedelta64[us]")
    for wrong, what in ((early > late, "ambiguous: it occurs twice"), (early < late, "skipped: it does not exist")):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"time column {name!r}: row {row}, {_text(stamps[row])}, is {what} in {timezone}, where clocks change "
                f"({int(wrong.sum())} such rows): give times in UTC or with their offset, 2018-10-28T02:00+02:00"
            )
    return np.asarray(stamps - early)


def check_order(name: str, stamps: Array) -> None:
    """Refuse stamps that do not grow, by what is wrong with them."""
    change = np.diff(stamps)
    if not len(change) or (change > np.timedelta64(0, "us")).all():
        return
    ordered, counts = np.unique(stamps, return_counts=True)
    row = int(np.argmax(change <= np.timedelta64(0, "us")))
    back = -change[row]
    hint = ""
    if back <= CLOCK_CHANGE:
        hint = "; local times do that when clocks are set back: give times in UTC or with their offset"
    if (counts > 1).any():
        stamp = ordered[int(np.argmax(counts > 1))]
        first, second = np.flatnonzero(stamps == stamp)[:2]
        raise ValueError(
            f"time column {name!r}: {_text(stamp)} is a duplicate, in rows {first} and {second} "
            f"({int((counts > 1).sum())} stamps occur several times): keep one row of each{hint}"
        )
    raise ValueError(
        f"time column {name!r} is not sorted: row {row + 1}, {_text(stamps[row + 1])}, comes after "
        f"{_text(stamps[row])}: sort the rows by time{hint}"
    )


def grid_step(name: str, stamps: Array, step: Any) -> np.timedelta64:
    """The step of the grid that sorted stamps lie on: the given one, or the most frequent difference."""
    change = np.diff(stamps)
    if step is not None:
        found = read_duration("step", step)
    elif len(change) == 0:
        raise ValueError(f"time column {name!r} has {len(stamps)} stamps: give step=, the time between them")
    else:
        values, counts = np.unique(change, return_counts=True)
        found = values[int(np.argmax(counts))]
    off = np.asarray((stamps - stamps[:1]) % found != np.timedelta64(0, "us"))
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(
            f"time column {name!r} is irregular: {int(off.sum())} of {len(stamps)} stamps are no whole number of steps "
            f"of {duration_text(found)} after the first, such as row {row}, {_text(stamps[row])}: resample the series, "
            "or give the step that all stamps share"
        )
    return found


def duration_text(duration: np.timedelta64) -> str:
    """A duration as `read_duration` reads it.

    >>> duration_text(np.timedelta64(90, "m"))
    '90min'
    """
    total = int(np.timedelta64(duration, "us").astype(np.int64))
    for unit in ("D", "h", "min", "s"):
        if total % MICROSECONDS[unit] == 0:
            return f"{total // MICROSECONDS[unit]}{unit}"
    return f"{total}us"


def _text(stamp: np.datetime64) -> str:
    text = str(stamp.astype("datetime64[s]"))
    return text.removesuffix(":00")
