"""How strong the daily cycle of a series is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import Array

from .series import Series
from .stamps import duration_text, read_duration


class DiurnalStrength(NamedTuple):
    """The mean of R over all windows, and over those of each month.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(240)
    >>> series = gf.forecasting.Series({"t": hours, "x": np.sin(np.arange(240) * np.pi / 12)}, time="t")
    >>> strength = gf.forecasting.diurnal_strength(series)
    >>> round(strength.mean, 6), strength.windows.tolist()
    (1.0, [2])
    """

    mean: float
    months: Array
    strength: Array
    windows: Array


def diurnal_strength(
    series: Series, channel: str | None = None, *, lag: Any = "24h", window: Any = "5D"
) -> DiurnalStrength:
    """The autocorrelation R(24 h) = ⟨(s(t) - s̄)(s(t + 24 h) - s̄)⟩ / σ² inside windows of five days, by month.

    Mean and deviation are those of each window, so that neither weather nor season counts. A cycle of exactly one day
    gives 1. White noise gives -1/(n - 1) on average, for the n values of a window, because its mean is subtracted.
    Windows follow each other from the first stamp on. Those with a gap or NaN are left out, and those that do not vary.

    Parameters
    ----------
    series : Series
    channel : str, optional
        The target if not given.
    lag, window : str or timedelta

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.arange(24 * 100)
    >>> noise = np.random.default_rng(0).normal(size=len(hours))
    >>> series = gf.forecasting.Series({"t": hours, "x": noise}, time="t")
    >>> abs(gf.forecasting.diurnal_strength(series).mean) < 0.05
    True
    """
    span, length = (_steps(series, name, value) for name, value in (("lag", lag), ("window", window)))
    if length <= span:
        raise ValueError(f"window={window!r} must be longer than lag={lag!r}")
    values, ticks = series.channel(series.target if channel is None else channel), series.ticks
    starts, found = [], []
    number = ticks // length
    for group in np.unique(number):
        first, stop = np.searchsorted(number, [group, group + 1])
        part = values[first:stop]
        if stop - first != length or not np.isfinite(part).all():
            continue
        centered = part - part.mean()
        variance = float(np.mean(centered**2))
        if variance <= 1e-24 * float(np.mean(part**2)):  # nothing but rounding
            continue
        starts.append(series.times[first])
        found.append(float(np.mean(centered[:-span] * centered[span:])) / variance)
    if not found:
        raise ValueError(f"{series!r} has no whole window of {duration_text(read_duration('window', window))}")
    months = np.array(starts).astype("datetime64[M]")
    names, place, counts = np.unique(months, return_inverse=True, return_counts=True)
    return DiurnalStrength(float(np.mean(found)), names, np.bincount(place, found) / counts, counts)


def _steps(series: Series, name: str, value: Any) -> int:
    duration = read_duration(name, value)
    if duration % series.step != np.timedelta64(0, "us"):
        raise ValueError(f"{name}={value!r} is not a whole number of steps of {duration_text(series.step)}")
    return int(duration // series.step)
