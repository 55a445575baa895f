"""From what a registry of packages serves to arrays, without unpacking anything to disk."""

from __future__ import annotations

import csv
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def mnist(path: Path) -> dict[str, Array]:
    """Four files in IDX format: a header of sixteen or eight bytes, then the pixels or labels."""
    with tarfile.open(path) as archive:
        parts = {key: _member(archive, f"package/data/{name}-ubyte") for key, name in _IDX.items()}
    images = {key: np.frombuffer(parts[key], np.uint8, offset=16).reshape(-1, 784) for key in ("X", "X_test")}
    return images | {key: np.frombuffer(parts[key], np.uint8, offset=8) for key in ("y", "y_test")}


_IDX = {
    "X": "train-images-idx3",
    "y": "train-labels-idx1",
    "X_test": "t10k-images-idx3",
    "y_test": "t10k-labels-idx1",
}


def flights(path: Path) -> dict[str, Array]:
    """Date, time and distance of a flight and where its airports lie; its delay in minutes."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("flights3m is a Parquet file: pip install 'gyrfalcon[arrow]'") from error
    with tarfile.open(path) as archive:
        table = parquet.read_table(io.BytesIO(_member(archive, "package/data/flights-3m.parquet")))
        airports = csv.DictReader(io.StringIO(_member(archive, "package/data/airports.csv").decode()))
        places = {row["iata"]: (float(row["latitude"]), float(row["longitude"])) for row in airports}
    date = table["date"].to_numpy().astype("datetime64[m]")
    days, months = date.astype("datetime64[D]"), date.astype("datetime64[M]")
    ends = []
    for column in ("origin", "destination"):
        coded = table[column].combine_chunks().dictionary_encode()
        known = np.array([places[code] for code in coded.dictionary.to_pylist()], dtype=np.float32)
        ends.append(known[coded.indices.to_numpy()])
    columns = [
        months.astype(int) % 12 + 1,
        (days - months).astype(int) + 1,
        (days.astype(int) + 3) % 7,  # the first day of 1970 was a Thursday
        (date - days).astype(int),
        table["distance"].to_numpy(),
    ]
    X = np.column_stack([*(column.astype(np.float32) for column in columns), *ends])
    return {"X": X, "y": table["delay"].to_numpy().astype(np.float32)}


def penguins(path: Path) -> dict[str, Array]:
    """Lengths in millimetres and mass in grams of the animals that were measured; their species."""
    with zipfile.ZipFile(path) as archive, archive.open("palmerpenguins/data/penguins.csv") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))
    names = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
    kept = [row for row in rows if all(row[name] != "NA" for name in names)]
    X = np.array([[float(row[name]) for name in names] for row in kept])
    return {"X": X, "y": np.array([row["species"] for row in kept])}


def compact_flights(arrays: dict[str, Array]) -> dict[str, Array]:
    """The same flights from an npz of narrow columns, airports by number."""
    columns = [arrays[key] for key in ("month", "day", "wday", "minute", "dist")]
    X = np.column_stack([*columns, *(arrays["latlon"][arrays[end]] for end in ("o", "d"))])
    return {"X": X.astype(np.float32), "y": arrays["y"].astype(np.float32)}


READERS: dict[str, Callable[[Path], dict[str, Array]]] = {"flights3m": flights, "mnist": mnist, "penguins": penguins}


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()
