"""Series: times and channels, with every gap known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.encoding.columns import as_column, named_columns
from gyrfalcon.tables import read_table

from .lags import LaggedSource
from .stamps import check_order, duration_text, grid_step, read_moment, read_stamps


class Gap(NamedTuple):
    """A place where stamps are missing.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> day = np.array(["2018-01-01", "2018-01-02", "2018-01-03", "2018-01-06"], "M8[D]")
    >>> gf.forecasting.Series({"day": day, "x": np.zeros(4)}, time="day").gaps[0].missing
    2
    """

    after: np.datetime64
    before: np.datetime64
    missing: int


class Wind(NamedTuple):
    """Names of the channels of a vector quantity: its length and its two components.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.forecasting.Wind("speed", "u", "v").speed
    'speed'
    """

    speed: str
    u: str
    v: str


class Series:
    """Values of some channels at regular times, of which any may be missing.

    Stamps must grow and lie on a grid of one step. What breaks this is refused, with its row: stamps that are not
    sorted, duplicates, stamps off the grid, and local times that occur twice or never because clocks change. Stamps
    that are missing are gaps, which no window of a forecaster spans; NaN breaks only the windows that hold it.

    A wind is a vector. Of speed and direction, the components u = -s sin θ (to the east) and v = -s cos θ (to the
    north) are made, where θ is where the wind comes from, in degrees clockwise from north; of u and v, the speed is
    made.

    Parameters
    ----------
    table : dict, pandas or polars frame, Arrow table, or path of a file
    time : str
        The column of stamps: dates, or text in ISO format. Stamps with a time zone become UTC.
    target : str, optional
        The channel to forecast: the speed, or the only channel, if not given.
    channels : sequence of str, optional
        Columns to keep; all but the time and the direction if not given.
    speed, direction, u, v : str, optional
        Columns of a vector quantity: speed and direction, or u and v with or without the speed.
    step : str or timedelta, optional
        Between stamps, such as "1h"; the most frequent difference if not given.
    timezone : str, optional
        That of local times, such as "Europe/Rome".

    Attributes
    ----------
    times : array of datetime64 of shape (n,)
    values : array of shape (n, c)
    names : tuple of str
        Of the channels.
    target : str
    step : timedelta64
    wind : Wind or None

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> hours = np.datetime64("2018-01-01T00") + np.delete(np.arange(100), [50, 51])
    >>> table = {"t": hours, "ws": np.full(98, 5.0), "deg": np.linspace(0, 360, 98)}
    >>> wind = gf.forecasting.Series(table, time="t", speed="ws", direction="deg")
    >>> wind
    Series(98 stamps of 1h from 2018-01-01T00:00, ws, u, v; target ws; 1 gap, 2 stamps missing)
    >>> wind[:"2018-01-02"].times[-1]  # the end is not part of it
    np.datetime64('2018-01-01T23:00:00.000000')
    """

    times: Array
    values: Array
    names: tuple[str, ...]
    target: str
    step: np.timedelta64
    wind: Wind | None

    def __init__(
        self,
        table: Any,
        *,
        time: str,
        target: str | None = None,
        channels: Sequence[str] | None = None,
        speed: str | None = None,
        direction: str | None = None,
        u: str | None = None,
        v: str | None = None,
        step: Any = None,
        timezone: str | None = None,
    ):
        columns = read_table(table) if isinstance(table, str | os.PathLike) else named_columns(table)
        roles = {"time": time, "target": target, "speed": speed, "direction": direction, "u": u, "v": v}
        for role, name in roles.items():
            if name is not None and name not in columns and not (role == "target" and name in ("speed", "u", "v")):
                raise ValueError(f"{role}={name!r}: there is no such column; there are {', '.join(columns)}")
        self.times = read_stamps(time, columns[time], timezone)
        if len(self.times) == 0:
            raise ValueError("the table has no rows")
        check_order(time, self.times)
        self.step = grid_step(time, self.times, step)
        chosen = [name for name in columns if name not in (time, direction)] if channels is None else list(channels)
        chosen += [name for name in (speed, u, v) if name is not None and name not in chosen]
        if missing := [name for name in chosen if name not in columns]:
            raise ValueError(f"channels: there is no column {missing[0]!r}; there are {', '.join(columns)}")
        numbers = {name: _numbers(name, columns[name]) for name in chosen}
        angle = None if direction is None else _numbers(direction, columns[direction])
        self.wind = _complete(numbers, speed, angle, u, v)
        if target is not None and target not in numbers:
            raise ValueError(f"target={target!r} is not one of the channels, {', '.join(numbers)}")
        if target is None and self.wind is None and len(numbers) != 1:
            raise ValueError(f"target must name the channel to forecast, one of {', '.join(numbers)}")
        self.target = target if target is not None else self.wind.speed if self.wind else next(iter(numbers))
        self.names = tuple(numbers)
        self.values = np.column_stack(list(numbers.values()))

    @classmethod
    def of(
        cls, times: Array, values: Array, names: Sequence[str], *, target: str, step: Any, wind: Wind | None = None
    ) -> Self:
        """The series of arrays that are known to be in order.

        Parameters
        ----------
        times : array of datetime64 of shape (n,)
        values : array of shape (n, c)
        names : sequence of str
        target : str
        step : timedelta64
        wind : Wind, optional
        """
        series = cls.__new__(cls)
        series.times, series.values, series.names = np.asarray(times, "datetime64[us]"), values, tuple(names)
        series.target, series.step, series.wind = target, np.timedelta64(step, "us"), wind
        return series

    def _with(self, times: Array, values: Array) -> Self:
        return self.of(times, values, self.names, target=self.target, step=self.step, wind=self.wind)

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        parts = [f"{', '.join(self.names)}; target {self.target}"]
        if gaps := self.gaps:
            many = f"{len(gaps)} gap" + "s" * (len(gaps) > 1)
            parts.append(f"{many}, {sum(gap.missing for gap in gaps):,} stamps missing")
        if broken := int(np.isnan(self.values).any(1).sum()):
            parts.append(f"NaN in {broken:,} rows")
        first = np.datetime64(self.times[0], "m")
        return f"Series({len(self):,} stamps of {duration_text(self.step)} from {first}, {'; '.join(parts)})"

    def __getitem__(self, period: slice) -> Self:
        """The stamps from one moment until before another, such as series["2017":"2018-06-01T12:00"]."""
        if not isinstance(period, slice) or period.step is not None:
            raise TypeError(f"a series takes slices of time, such as series[:'2018-01-01'], got {period!r}")
        first, stop = (
            default if moment is None else int(np.searchsorted(self.times, read_moment("moment", moment)))
            for moment, default in ((period.start, 0), (period.stop, len(self)))
        )
        if first >= stop:
            raise ValueError(
                f"series[{period.start!r}:{period.stop!r}] is empty: the stamps go from {self.times[0]} to "
                f"{self.times[-1]}"
            )
        return self._with(self.times[first:stop], self.values[first:stop])

    def followed_by(self, later: Series) -> Self:
        """This series and a later one of the same channels and the same grid as one.

        Parameters
        ----------
        later : Series
        """
        if later.names != self.names or later.step != self.step:
            raise ValueError(f"{later!r} has other channels or another step than {self!r}")
        away = later.times[0] - self.times[-1]
        if away <= np.timedelta64(0, "us"):
            raise ValueError(
                f"the later series begins at {later.times[0]}, which is not after {self.times[-1]}, where the earlier "
                "one ends"
            )
        if away % self.step != np.timedelta64(0, "us"):
            raise ValueError(
                f"the later series begins at {later.times[0]}, which is not on the grid of the earlier one"
            )
        return self._with(np.concatenate([self.times, later.times]), np.concatenate([self.values, later.values]))

    def channel(self, name: str) -> Array:
        """The values of one channel."""
        if name not in self.names:
            raise ValueError(f"there is no channel {name!r}; there are {', '.join(self.names)}")
        return np.asarray(self.values[:, self.names.index(name)])

    def columns(self, names: Sequence[str]) -> Array:
        """The values of some channels, of shape (n, len(names))."""
        return np.column_stack([self.channel(name) for name in names])

    @property
    def content(self) -> tuple[Any, ...]:
        """All that it holds: series with the same give the same forecasts."""
        return self.times.astype(np.int64), self.values, self.names, self.target, str(self.step), self.wind

    @property
    def ticks(self) -> Array:
        """How many steps each stamp comes after the first."""
        return np.asarray((self.times - self.times[0]) // self.step).astype(np.int64)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Where stamps are missing."""
        jumps = np.diff(self.ticks)
        return tuple(
            Gap(self.times[row], self.times[row + 1], int(jumps[row]) - 1) for row in np.flatnonzero(jumps > 1)
        )

    def windows(self, memory: int, horizon: int = 0, *, inputs: Sequence[str] | None = None) -> Array:
        """Rows that are the origin of a whole window: the memory - 1 stamps before it and the `horizon` stamps after it
        are there, and the inputs up to the origin are finite.

        Parameters
        ----------
        memory : int
        horizon : int
        inputs : sequence of str, optional
            Channels that must be finite; all if not given.
        """
        rows = np.arange(memory - 1, len(self) - horizon)
        if len(rows) == 0:
            return rows
        ticks = self.ticks
        whole = ticks[rows + horizon] - ticks[rows - memory + 1] == memory + horizon - 1
        broken = ~np.isfinite(self.values if inputs is None else self.columns(inputs)).all(1)
        before = np.concatenate([[0], np.cumsum(broken)])
        whole &= before[rows + 1] == before[rows - memory + 1]
        return np.asarray(rows[whole])

    def lagged(
        self, memory: int, origins: Array, *, inputs: Sequence[str] | None = None, calendar: Sequence[str] = ()
    ) -> LaggedSource:
        """The windows of some origins as a source of rows, which are made when they are read.

        Parameters
        ----------
        memory : int
        origins : array of int
            Rows, as `windows` returns them.
        inputs : sequence of str, optional
            All channels if not given.
        calendar : sequence of "day", "week" and "year"
        """
        names = self.names if inputs is None else tuple(inputs)
        values = self.values if names == self.names else self.columns(names)
        return LaggedSource(values, origins, memory, names=names, times=self.times, calendar=calendar)


def _numbers(name: str, cells: Any) -> Array:
    column = as_column(name, cells)
    if column.kind in ("category", "date"):
        raise ValueError(f"column {name!r} holds {column.kind} values, and channels are numbers: choose with channels=")
    return column.as_numbers().astype(np.float64)


def _complete(
    numbers: dict[str, Array], speed: str | None, angle: Array | None, u: str | None, v: str | None
) -> Wind | None:
    """Adds what is missing of speed, u and v."""
    if (u is None) != (v is None):
        raise ValueError(f"u={u!r} and v={v!r} go together: give both components")
    if angle is not None and (speed is None or u is not None):
        raise ValueError("direction goes with speed, and not with u and v")
    if angle is None and u is None:
        return None
    if angle is not None:
        assert speed is not None
        turned = np.deg2rad(angle)
        made = {"u": -numbers[speed] * np.sin(turned), "v": -numbers[speed] * np.cos(turned)}
        wind = Wind(speed, "u", "v")
    else:
        assert u is not None
        assert v is not None
        made = {} if speed is not None else {"speed": np.hypot(numbers[u], numbers[v])}
        wind = Wind(speed or "speed", u, v)
    if taken := [name for name in made if name in numbers]:
        raise ValueError(
            f"a channel is called {taken[0]!r} already, which is to be made: rename it, or give it as a role"
        )
    numbers |= made
    return wind
