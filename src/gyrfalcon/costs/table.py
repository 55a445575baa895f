"""Nanoseconds of work on two cores, and how many iterations Falkon makes.

Only ratios matter, since machines differ by a factor. The constants come from `python -m benchmarks choice`, which
shows the decisions that follow from them beside the stopwatch.
"""

from __future__ import annotations

import numpy as np
import torch

# Nanoseconds to evaluate one entry of K in a fused product, for each of its features, and for each further output.
ENTRY_NS = {torch.float32: 0.17, torch.float64: 0.4}
FEATURE_NS = {torch.float32: 0.0105, torch.float64: 0.02}
OUTPUT_NS = 0.15

# Nanoseconds that an entry of sparse points takes beyond one of dense points without features, and for each feature
# that both points have.
SPARSE_ENTRY_NS = 1.9
MATCH_NS = 0.6

# Nanoseconds to read one entry of a K that is kept in memory, for each further output, and to write it there first.
CACHED_ENTRY_NS = {torch.float32: 0.55, torch.float64: 0.9}
CACHED_OUTPUT_NS = {torch.float32: 0.15, torch.float64: 0.2}
FILLED_ENTRY_NS = 9.0

STORED_ENTRY_NS = 2.0  # to write an entry of a small block that is used at once
PASS_NS = 3e6  # of every pass over the rows, whatever its size
SAMPLING_NS = 50e6  # of making a preconditioner from a sample of rows, whatever its size
LEAF_NS = 1e6  # of splitting rows and of every leaf, whatever its size
FLOP_NS = 0.0147  # in products of large float64 matrices
HALF_SPEED_SIZE = 300  # rows of matrices with which products reach half of that speed

LEAST_NOISE_OF_ROUGH = 0.01  # of penalty · m², down to which iterations for rough kernels were counted
ITERATION_SHARE = {8: 0.25, 3: 0.45}  # of Falkon's iterations that are left, by sampled rows to a center
SAMPLED_ITERATIONS = {8: 8, 3: 16}  # that are left at most: how near a sample of that size comes to all rows says so


def entry(features: float, dtype: torch.dtype, outputs: int = 1) -> float:
    """Nanoseconds to evaluate one entry of K and use it for all outputs."""
    return ENTRY_NS[dtype] + FEATURE_NS[dtype] * features + OUTPUT_NS * (outputs - 1)


def sparse_features(matches: float, dtype: torch.dtype) -> float:
    """How many features dense points have whose entries cost as much as those of sparse ones with so many in common."""
    return (SPARSE_ENTRY_NS + MATCH_NS * matches) / FEATURE_NS[dtype]


def combined_features(features: float, parts: int, dtype: torch.dtype) -> float:
    """How many features a simple kernel sees whose entries cost as much as those of so many kernels put together."""
    return parts * features + (parts - 1) * ENTRY_NS[dtype] / FEATURE_NS[dtype]


def cached_entry(dtype: torch.dtype, outputs: int = 1) -> float:
    """Nanoseconds to read one entry of a K that is kept in memory and use it for all outputs."""
    return CACHED_ENTRY_NS[dtype] + CACHED_OUTPUT_NS[dtype] * (outputs - 1)


def flop(size: int) -> float:
    """Nanoseconds of one operation in products of float64 matrices of that size."""
    return FLOP_NS * (1 + HALF_SPEED_SIZE / max(1, size))


def whitened_gram(rows: float, m: int, features: float) -> float:
    """Nanoseconds to make ZᵀZ, Z = K T⁻¹, in float64: a triangular solve and a product of which symmetry saves half."""
    return rows * m * (entry(features, torch.float64) + STORED_ENTRY_NS) + 2 * rows * m**2 * flop(m)


def leaf(rows: int, features: float, *, narrow: bool) -> float:
    """Nanoseconds to solve kernel ridge regression on so many rows, by factors in float32 if those are `narrow`."""
    entries = rows**2 * (entry(features, torch.float64) + STORED_ENTRY_NS)
    return LEAF_NS + entries + rows**3 / 3 * flop(rows) / (2 if narrow else 1)


def iterations(n: int, m: int, directions: float, penalty: float, per_center: int = 0, *, rough: bool = False) -> float:
    """Of Falkon, preconditioned by k(C, C) or by a sample of so many rows to a center.

    More where the spectrum falls beyond what the centers resolve: with few of them, small penalties and few directions
    that matter to the kernel. The spectrum of a rough kernel falls slowly, and few iterations do whatever these are,
    unless the penalty is so small that next to nothing is noise.
    """
    directions, growth = max(1.0, directions), (n / 5e4) ** 0.12
    ratio = max(penalty, 1e-12) * m**2
    unresolved = min(16.5 * np.sqrt(directions) * ratio**-0.31, 8 + 7200 / directions**2)
    if rough and ratio >= LEAST_NOISE_OF_ROUGH:
        unresolved = min(unresolved, 15 * ratio**-0.09)
    plain = float(np.clip(growth * unresolved, 8, 100))
    if not per_center:
        return plain
    return min(3 + plain * ITERATION_SHARE[per_center], SAMPLED_ITERATIONS[per_center])
