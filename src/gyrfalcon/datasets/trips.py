"""Taxi trips that never took place: as many as asked for, shaped like records of real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data.atomic import replacing

Array = np.ndarray[Any, Any]

TARGET = "log_duration"
# Over how much of each feature, in its own unit, durations change.
LENGTH_SCALES = {
    "hour": 4.0,
    "weekday": 3.0,
    "distance_km": 4.0,
    "pickup_x_km": 5.0,
    "pickup_y_km": 5.0,
    "dropoff_x_km": 5.0,
    "dropoff_y_km": 5.0,
    "passengers": 4.0,
    "rain_mm": 4.0,
}
CHUNK = 1 << 17


def make_trips(n: int, *, seed: int = 0) -> tuple[Array, Array]:
    """Taxi trips in a town that does not exist, in float32: hour, weekday, distance, places, passengers, rain; the
    logarithm of the minutes they took.

    Parameters
    ----------
    n : int
        Rows. The first of a longer table are those of a shorter one.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> X, y = gf.datasets.make_trips(1000)
    >>> X.shape, bool(5 < float(np.exp(np.median(y))) < 60)
    ((1000, 9), True)
    """
    parts = [rows(columns) for columns in chunks(n, seed)]
    table = np.concatenate(parts) if parts else np.empty((0, len(LENGTH_SCALES) + 1), dtype=np.float32)
    return table[:, :-1], table[:, -1]


def rows(columns: dict[str, Array]) -> Array:
    """Columns as a float32 matrix, the target last."""
    return np.stack([columns[name].astype(np.float32) for name in (*LENGTH_SCALES, TARGET)], 1)


def chunks(n: int, seed: int) -> Iterator[dict[str, Array]]:
    """Columns of n trips, a chunk at a time. The first trips of a longer table are those of a shorter one."""
    for number, start in enumerate(range(0, n, CHUNK)):
        yield {name: column[: n - start] for name, column in chunk(number, seed).items()}


def chunk(number: int, seed: int) -> dict[str, Array]:
    """Columns of the trips of one chunk, whichever were made before."""
    return _trips(np.random.default_rng([seed, number]))


def write_trips(path: str | os.PathLike[str], n: int, *, seed: int = 0) -> None:
    """Write n trips to a Parquet file, features and target as float32, with the memory of one chunk.

    Parameters
    ----------
    path : path
    n : int
        Rows.
    seed : int

    Examples
    --------
    >>> import gyrfalcon as gf, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gf.datasets.write_trips(f"{folder}/trips.parquet", 1000)
    ...     gf.data.open(f"{folder}/trips.parquet", target="log_duration").X.shape
    (1000, 9)
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'gyrfalcon[arrow]'") from error

    schema = pa.schema([(name, pa.float32()) for name in (*LENGTH_SCALES, TARGET)])
    with replacing(Path(path)) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for columns in chunks(n, seed):
            writer.write_table(pa.table({name: columns[name].astype(np.float32) for name in schema.names}, schema))


def _trips(random: np.random.Generator) -> dict[str, Array]:
    hour = (
        random.choice([8.5, 13.0, 18.5, 22.5], CHUNK, p=[0.2, 0.3, 0.3, 0.2]) + 2 * random.standard_normal(CHUNK)
    ) % 24
    weekday = random.integers(0, 7, CHUNK)
    pickup, dropoff = (_places(random) for _ in range(2))
    # Streets form a grid, and nobody drives less than a few hundred metres.
    distance = 0.3 + np.abs(pickup - dropoff).sum(1) * random.lognormal(0.1, 0.1, CHUNK)
    rain = np.where(random.random(CHUNK) < 0.15, random.exponential(3.0, CHUNK), 0.0)
    rush = np.exp(-((hour - 8.5) ** 2) / 4) + 1.2 * np.exp(-((hour - 17.5) ** 2) / 6)
    center = np.exp(-((pickup**2).sum(1) + (dropoff**2).sum(1)) / 50)
    speed = 32 / (1 + np.where(weekday < 5, rush, 0.3 * rush) * (0.3 + center) + 0.05 * rain) + 8 * np.tanh(
        distance / 10
    )
    minutes = 1.5 + 60 * distance / speed
    # Most trips take about what they should and some much longer: jams, detours, meters left running.
    noise = 0.15 * random.standard_normal(CHUNK) + random.exponential(0.12, CHUNK)
    columns = (hour, weekday, distance, *pickup.T, *dropoff.T, random.geometric(0.7, CHUNK).clip(max=6), rain)
    return dict(zip(LENGTH_SCALES, columns, strict=True)) | {TARGET: np.log(minutes) + noise}


def _places(random: np.random.Generator) -> Array:
    """Around the middle of a town, or at its airport."""
    town = random.standard_normal((CHUNK, 2)) * [2.5, 6.0]
    airport = np.array([14.0, -9.0]) + 0.3 * random.standard_normal((CHUNK, 2))
    return np.where(random.random((CHUNK, 1)) < 0.08, airport, town)
