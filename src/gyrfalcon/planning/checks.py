"""Check the arguments of a plan strictly, because a plan for a mistyped size looks like any other plan."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

STORAGES = ("memory", "parquet", "feather", "npy")


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number. Floats such as 1e9 are accepted, because large numbers are often written in this way."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not (least <= number < math.inf and number == int(number)):
        raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}")
    return int(value)


def as_counts(values: Any, name: str) -> tuple[int, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
        raise ValueError(f"{name} must be several whole numbers, such as (1, 2, 8), got {values!r}")
    return tuple(as_count(value, name) for value in values)


def as_dtype(value: Any) -> str:
    try:
        name = str(np.dtype(value))
    except TypeError:
        name = str(value).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {value!r}")
    return name


def as_storage(value: Any) -> str:
    if value not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(map(repr, STORAGES))}, got {value!r}")
    return str(value)
