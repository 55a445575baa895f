"""Data that need not fit memory: sources of rows, files of many kinds, and writing predictions."""

from .arrays import ArraySource
from .chunked import ChunkedSource
from .dask_source import DaskSource
from .feather import FeatherSource
from .groups import GroupSource
from .many import JoinedSource
from .parquet import ParquetSource
from .points import Points, as_points
from .remote import remote
from .source import Source
from .table import Table, open
from .writer import write

__all__ = [
    "ArraySource",
    "ChunkedSource",
    "DaskSource",
    "FeatherSource",
    "GroupSource",
    "JoinedSource",
    "ParquetSource",
    "Points",
    "Source",
    "Table",
    "as_points",
    "open",
    "remote",
    "write",
]
