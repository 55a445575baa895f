"""Data sets by name, with licences and checksums, and generators of those that nobody needs to store."""

from .entry import Entry
from .fetch import DatasetError
from .load import Split, describe, load, names
from .synthetic import make_cube, make_noisy_classes, make_oblique
from .trips import make_trips, write_trips

__all__ = [
    "DatasetError",
    "Entry",
    "Split",
    "describe",
    "load",
    "make_cube",
    "make_noisy_classes",
    "make_oblique",
    "make_trips",
    "names",
    "write_trips",
]
