"""Intervals that are corrected as time goes by: wider after they have missed too often, narrower after too seldom.

I. Gibbs and E. Candès, "Adaptive conformal inference under distribution shift", 2021, with one correction for each time
that a model is trained again. At every moment only errors count whose truth is known by then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gyrfalcon.arrays import Array

from .intervals import bounds

GAIN, GAIN_PERIOD = 0.3, np.timedelta64(28, "D")  # share of what was missed too often that is corrected in so many days
LARGEST_GAIN = 1.0
NARROWEST, WIDEST = 3.0, 0.1  # times the share of misses that is asked for


@dataclass(frozen=True)
class History:
    """Errors of forecasts in the order of time, the first ones from before the backtest.

    Attributes
    ----------
    times : array of datetime64 of shape (n,)
        Origins.
    ahead : array of timedelta64 of shape (horizons,)
    errors : array of shape (n, horizons)
        Truth less forecast; NaN where there is no truth.
    first : int
        Where the backtest begins.
    """

    times: Array
    ahead: Array
    errors: Array
    first: int


def moving_bounds(
    history: History, numbers: Array, begin: np.datetime64, period: np.timedelta64, level: float
) -> tuple[Array, Array]:
    """What to add to forecasts of the backtest for intervals of a level in percent, as two arrays (n, horizons).

    Intervals of a period are quantiles of all errors that are known at its beginning, at a level that moves: whenever
    the share of misses since the period before was more than asked for, the share that is aimed at gets smaller.

    Parameters
    ----------
    history : History
    numbers : array of int of shape (n - first,)
        The period of each forecast, in ascending order.
    begin : datetime64
        The beginning of period 0.
    period : timedelta64
    level : float

    >>> times = np.datetime64("2020-01-01") + np.arange(200)
    >>> errors = np.r_[np.linspace(-1, 1, 100), np.linspace(-4, 4, 100)][:, None]  # four times as large later
    >>> history = History(times, np.array([np.timedelta64(1, "D")]), errors, 100)
    >>> lower, upper = moving_bounds(history, np.arange(100) // 25, times[100], np.timedelta64(25, "D"), 80)
    >>> [round(float(upper[25 * k, 0]), 1) for k in range(4)]
    [0.8, 1.0, 0.9, 1.9]
    """
    found = np.empty((2, len(numbers), len(history.ahead)))
    gain = min(LARGEST_GAIN, GAIN * float(period / GAIN_PERIOD))
    for place, ahead in enumerate(history.ahead):
        errors, aimed, counted = history.errors[:, place], 100.0 - level, 0
        for number in np.unique(numbers):
            known = int(np.searchsorted(history.times + ahead, begin + int(number) * period))  # targets before it
            fresh = slice(counted, max(counted, known - history.first))
            counted = fresh.stop
            seen = errors[history.first :][fresh]
            missed = (seen < found[0, fresh, place]) | (seen > found[1, fresh, place])
            if np.isfinite(seen).any():
                share = 100.0 * float(missed[np.isfinite(seen)].mean())
                aimed = float(np.clip(aimed + gain * (100.0 - level - share), *_range(level)))
            usable = errors[:known]
            usable = np.sort(usable[np.isfinite(usable)])[:, None]
            found[:, numbers == number, place] = np.stack(bounds(usable, 100.0 - aimed))
    return found[0], found[1]


def _range(level: float) -> tuple[float, float]:
    asked = 100.0 - level
    return WIDEST * asked, min(NARROWEST * asked, (100.0 + asked) / 2)
