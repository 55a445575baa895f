"""Format numbers for readers. Numbers that are not finite become a dash."""

from __future__ import annotations

import datetime
import math


def number(value: float, digits: int = 4) -> str:
    """Format a number with some significant digits, thousands separators, and powers of ten where zeros would be many.

    >>> [number(value) for value in (0.123456, 1234567.0, 250.0, 3e-9, float("nan"))]
    ['0.1235', '1,234,567', '250', '3e−9', '–']
    """
    value = float(value)
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e9:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return _minus(f"{mantissa}e{int(power)}")
    places = 0 if size == 0 else max(0, digits - 1 - math.floor(math.log10(size)))
    written = f"{value:,.{places}f}"
    return _minus(written.rstrip("0").rstrip(".") if "." in written else written)


def share(value: float) -> str:
    """Format a share of one in percent.

    >>> share(0.9512), share(1.0), share(0.0004)
    ('95.1 %', '100 %', '0.04 %')
    """
    if not math.isfinite(value):
        return "–"
    if abs(value) < 0.1:
        return f"{number(100 * value, 2)} %"
    return f"{number(100 * value, 3)} %"


def seconds(value: float) -> str:
    """
    >>> seconds(0.00123), seconds(75.0)
    ('1.2 ms', '75 s')
    """
    return f"{number(1000 * value, 2)} ms" if value < 1 else f"{number(value, 3)} s"


def day(value: float) -> str:
    """The date of a number of days since 1970, or the number if no calendar has it.

    >>> day(19723.25), day(1e9)
    ('2024-01-01', '1e9')
    """
    try:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(value))).isoformat()
    except (OverflowError, ValueError):
        return number(value, 3)


def short(name: object, most: int = 40) -> str:
    """Shorten a name so that it fits in a label."""
    text = " ".join(str(name).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _minus(text: str) -> str:
    return "0" if text == "-0" else text.replace("-", "−")
