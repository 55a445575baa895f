"""What work costs: the one measured table that caching, the choice of a solver and plans read."""

from .table import (
    FILLED_ENTRY_NS,
    ITERATION_SHARE,
    PASS_NS,
    SAMPLING_NS,
    STORED_ENTRY_NS,
    cached_entry,
    combined_features,
    entry,
    flop,
    iterations,
    leaf,
    sparse_features,
    whitened_gram,
)

__all__ = [
    "FILLED_ENTRY_NS",
    "ITERATION_SHARE",
    "PASS_NS",
    "SAMPLING_NS",
    "STORED_ENTRY_NS",
    "cached_entry",
    "combined_features",
    "entry",
    "flop",
    "iterations",
    "leaf",
    "sparse_features",
    "whitened_gram",
]
