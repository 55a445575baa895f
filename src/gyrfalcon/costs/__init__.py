"""What work costs: the one measured table that caching, the choice of a solver and plans read."""

from .table import (
    PASS_NS,
    SAMPLING_NS,
    STORED_ENTRY_NS,
    cached_entry,
    entry,
    filled_entry,
    flop,
    iterations,
    sampled_share,
    whitened_gram,
)

__all__ = [
    "PASS_NS",
    "SAMPLING_NS",
    "STORED_ENTRY_NS",
    "cached_entry",
    "entry",
    "filled_entry",
    "flop",
    "iterations",
    "sampled_share",
    "whitened_gram",
]
