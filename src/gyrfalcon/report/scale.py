"""Scales that map data to positions on an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .text import number

Array = np.ndarray[Any, Any]

MOST_DAYS = 2_000_000  # from 1970, which years of four digits are within
# Units of ticks, their steps, and how many characters of an ISO date they need.
_CALENDAR = (
    ("D", 1, 10), ("D", 2, 10), ("D", 7, 10), ("D", 14, 10), ("M", 1, 7), ("M", 2, 7), ("M", 3, 7), ("M", 6, 7),
    ("Y", 1, 4), ("Y", 2, 4), ("Y", 5, 4), ("Y", 10, 4), ("Y", 20, 4), ("Y", 50, 4), ("Y", 100, 4), ("Y", 1000, 4),
    ("Y", 10_000, 5),
)  # fmt: skip
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`; `place` gives shares of its length. Days since 1970 are shown
    as dates if it says so.

    >>> Scale(0.0, 10.0).place([2.5]).tolist(), [label for _, label in Scale(0.0, 10.0).ticks()]
    ([0.25], ['0', '2', '4', '6', '8', '10'])
    """

    low: float
    high: float
    log: bool = False
    dates: bool = False

    @classmethod
    def of(cls, *values: Any, log: bool = False, room: float = 0.04) -> Scale:
        """An axis for all finite values, with some room at both ends."""
        flat = np.concatenate([np.asarray(value, dtype=np.float64).ravel() for value in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        if not len(flat):
            return cls(1.0, 10.0, log) if log else cls(0.0, 1.0)
        low, high = float(flat.min()), float(flat.max())
        if log:
            spread = max(math.log10(high / low), 0.2) * room
            return cls(low / 10**spread, high * 10**spread, log=True)
        spread = high / 2 - low / 2  # halves, so that it cannot overflow
        spread = 2 * room * spread if spread > 1e-9 * max(abs(low), abs(high)) else max(0.05 * abs(high), 1e-300)
        return cls(low - spread, high + spread)

    def place(self, values: Any) -> Array:
        values = np.asarray(values, dtype=np.float64)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return np.asarray((np.log(np.maximum(values, 1e-300)) - low) / (high - low))
        half = self.high / 2 - self.low / 2
        return np.asarray((values / 2 - self.low / 2) / half)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        if self.dates:
            return self._calendar(most)
        return self._powers(most) if self.log else self._steps(most)

    def _calendar(self, most: int) -> list[tuple[float, str]]:
        """Days, first days of months or first days of years, as few as fit."""
        low, high = math.ceil(self.low), math.floor(self.high)
        if not abs(low) < MOST_DAYS > abs(high):  # years that no calendar has
            return self._steps(most)
        for unit, step, length in _CALENDAR:
            first, last = (np.datetime64(day, "D").astype(f"datetime64[{unit}]").astype(int) for day in (low, high))
            places = np.arange(-(-int(first) // step) * step, int(last) + 1, step).astype(f"datetime64[{unit}]")
            days = places.astype("datetime64[D]").astype(int)
            kept = [(day, place) for day, place in zip(days, places, strict=True) if low <= day <= high]
            if len(kept) <= max(2, most + 1 - length // 3):  # long labels need room
                return [(float(day), str(place.astype("datetime64[D]"))[:length]) for day, place in kept]
        return self._steps(most)

    def _steps(self, most: int) -> list[tuple[float, str]]:
        rough = (self.high / 2 - self.low / 2) / (most / 2)
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step = next((power * step for step in _STEPS if power * step >= rough * (1 - 1e-9)), power * 10)
        if not (math.isfinite(step) and step > 0):
            return []
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = 2 + math.ceil(math.log10(max(abs(first), abs(last), 1)) + 1e-9)
        top = step * max(abs(first), abs(last))  # labels stay short
        unit, letter = (1e6, "M") if 1e6 <= top < 1e9 else (1e3, "k") if 1e4 <= top < 1e6 else (1.0, "")
        places = [place * step for place in range(first, last + 1)]
        return [(place, number(place / unit, digits) + letter * (place != 0)) for place in places]

    def _powers(self, most: int) -> list[tuple[float, str]]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        factors = (1.0,) if last - first > 3 else (1.0, 3.0) if last - first > 1 else (1.0, 2.0, 5.0)
        ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        ticks = [tick for tick in ticks if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
        if len(ticks) < 2:
            return self._steps(most)
        kept = ticks[:: max(1, math.ceil(len(ticks) / most))]
        return [(tick, number(tick, 2) if 1e-3 <= tick < 1e5 else _power(tick)) for tick in kept]


@dataclass(frozen=True)
class Marked(Scale):
    """An axis with ticks at given values, such as the few that were tried.

    >>> Marked.at([2, 6, 24], log=True).ticks()
    [(2.0, '2'), (6.0, '6'), (24.0, '24')]
    """

    marks: tuple[float, ...] = ()

    @classmethod
    def at(cls, values: Any, *, log: bool = False) -> Marked:
        around = Scale.of(values, log=log)
        return cls(around.low, around.high, log, marks=tuple(float(value) for value in values))

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        return [(mark, number(mark)) for mark in self.marks]


def _power(value: float) -> str:
    power = math.floor(math.log10(value) + 1e-9)
    factor = round(value / 10.0**power)
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if factor == 1 else f"{factor}·10{raised}"
