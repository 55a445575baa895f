"""The lagged view of a series: rows of the last values before each origin, made when they are read and never stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.data import Source

PIECE_NUMBERS = 1 << 19  # of rows that are made together
DAY = 86_400.0
CYCLES = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}


class LaggedSource(Source):
    """Rows x_i = (η_t, η_{t-1}, …, η_{t-μ+1}) for origins t of a series, and the phases of the calendar after them.

    Column μ-major: all channels of the origin come first, then those of the step before. Nothing but the series itself
    is in memory, so that 72 lags of three channels cost no more than the three channels, and any engine streams them.

    Parameters
    ----------
    values : array of shape (n, c)
        Channels of the series.
    origins : array of int
        Numbers of rows of `values`. The μ - 1 rows before each belong to the window.
    memory : int
        μ.
    names : sequence of str, optional
        Of the channels.
    times : array of datetime64, optional
        Of the rows, for the calendar.
    calendar : sequence of "day", "week" and "year"
        Each adds the sine and the cosine of the phase of the origin.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> values = np.arange(6.0)[:, None]
    >>> gf.forecasting.LaggedSource(values, np.array([2, 5]), memory=3).to_array()
    array([[2., 1., 0.],
           [5., 4., 3.]])
    """

    def __init__(
        self,
        values: Array,
        origins: Array,
        memory: int,
        *,
        names: Sequence[str] | None = None,
        times: Array | None = None,
        calendar: Sequence[str] = (),
    ):
        if len(origins) and (origins.min() < memory - 1 or origins.max() >= len(values)):
            raise ValueError(f"origins must lie in [{memory - 1}, {len(values)}), so that windows have {memory} rows")
        if calendar and times is None:
            raise ValueError(f"calendar={tuple(calendar)} needs the times of the rows")
        if unknown := [cycle for cycle in calendar if cycle not in CYCLES]:
            raise ValueError(f"calendar must hold 'day', 'week' or 'year', got {unknown[0]!r}")
        self._values, self._origins, self._back = values, origins, np.arange(memory)
        self._times, self._calendar = times, tuple(calendar)
        width = memory * values.shape[1] + 2 * len(self._calendar)
        columns = names if names is not None else [f"x{place}" for place in range(values.shape[1])]
        every = [name if lag == 0 else f"{name}[-{lag}]" for lag in range(memory) for name in columns]
        every += [f"{part} of {cycle}" for cycle in self._calendar for part in ("sine", "cosine")]
        super().__init__("lagged series", (len(origins), width), np.float64, every)

    def _read(self, start: int, stop: int) -> Iterator[Array]:
        step = max(1, PIECE_NUMBERS // max(1, self.shape[1]))
        for first in range(start, stop, step):
            yield self._made(self._origins[first : min(stop, first + step)])

    def take(self, indices: Any) -> Array:
        """Those rows, in the order asked for, without a pass."""
        return self._made(self._origins[self._checked_indices(indices)])

    def _made(self, origins: Array) -> Array:
        lags = self._values[origins[:, None] - self._back].reshape(
            len(origins), len(self._back) * self._values.shape[1]
        )
        if not self._calendar:
            return np.asarray(lags, dtype=np.float64)
        assert self._times is not None
        seconds = self._times[origins].astype("datetime64[us]").astype(np.int64) / 1e6
        phases = [2 * np.pi * (seconds / CYCLES[cycle] % 1.0) for cycle in self._calendar]
        waves = [wave(phase) for phase in phases for wave in (np.sin, np.cos)]
        return np.column_stack([lags, *waves])
