"""Rows: which may become centers, how they are drawn and how they are taken out of X."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.data import Source
from gyrfalcon.data.points import Points
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix

Array = np.ndarray[Any, Any]
DEFAULT_BUDGET = 1 << 30  # bytes that a rule may take where none are given


def eligible(X: AnyPoints, weights: Array | None) -> tuple[Array, Array]:
    """The rows of positive weight, and their weights."""
    n = X.shape[0]
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weights must have one entry per row of X, {n}, got shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights must be finite and not negative: drop the rows that have none")
    rows = np.flatnonzero(weights)
    if len(rows) == 0:
        raise ValueError(f"X has {n} rows and none of positive weight: there is nothing to choose centers from")
    return rows, weights[rows]


def checked_count(count: int) -> int:
    if operator.index(count) < 1:
        raise ValueError(f"count must be a positive integer, got {count!r}")
    return operator.index(count)


def check_positive(kernel: Kernel, rule: str) -> None:
    if not kernel.positive_definite:
        raise ValueError(f"centers={rule!r} needs a positive definite kernel, got {kernel!r}: choose 'uniform'")


def draw(weights: Array, count: int, random: np.random.Generator) -> Array:
    """At most `count` different positions, one after the other in proportion to the weights that are left; sorted.

    The largest of log w + Gumbel noise are such a draw. Positions of weight zero are never drawn.
    """
    positions = np.flatnonzero(weights)
    weights = weights[positions]
    count = min(count, len(weights))
    if count == 0 or weights.min() == weights.max():
        chosen = random.choice(len(weights), count, replace=False, shuffle=False) if count else np.arange(0)
    else:
        keys = np.log(weights) + random.gumbel(size=len(weights))
        chosen = np.argpartition(keys, len(keys) - count)[len(keys) - count :]
    return np.sort(positions[chosen])


def subsample(rows: Array, weights: Array, size: int, random: np.random.Generator) -> tuple[Array, Array]:
    """At most `size` of the rows with weights that stand for all of them: how often each was drawn in their ratio."""
    if len(rows) <= size:
        return rows, weights
    if weights.min() == weights.max():
        return rows[draw(weights, size, random)], np.ones(size)
    drawn, times = np.unique(random.choice(len(rows), size, p=weights / weights.sum()), return_counts=True)
    return rows[drawn], times.astype(np.float64)


def take(X: AnyPoints, rows: Array) -> AnyPoints:
    """Those rows, as a new matrix of the same kind."""
    if isinstance(X, Tensor):
        return X.detach()[torch.from_numpy(rows).to(X.device)]
    return X.take(rows) if isinstance(X, Source) else X[rows]


def stand_in(
    X: Source, weights: Array | None, size: int, random: np.random.Generator
) -> tuple[AnyPoints, Array | None]:
    """All rows of a source and their weights if there are at most `size`, else so many drawn by weight: in memory."""
    n = X.shape[0]
    if n <= size:
        return X.to_array(), weights
    if weights is None:  # without the vectors of length n that weights would need
        return X.take(np.sort(random.choice(n, size, replace=False, shuffle=False))), None
    rows, weights = subsample(*eligible(X, weights), size, random)
    return X.take(rows), weights


def on_host(X: AnyPoints) -> Any:
    """X as an array or CSR in main memory."""
    return X.detach().cpu().numpy() if isinstance(X, Tensor) else X


def in_double(X: AnyPoints, rows: Array) -> Any:
    """Those rows in float64 and in main memory, where a rule does its own linear algebra."""
    return on_host(take(X, rows)).astype(np.float64)


def dense(kernel: Kernel, X: Any, C: Any) -> Array:
    """k(X, C), for the small matrices of a rule."""
    with torch.no_grad():
        return np.asarray(KernelMatrix(kernel, Points(X), Points(C)).to_dense())


def diagonal(kernel: Kernel, X: Any) -> Array:
    with torch.no_grad():
        return np.asarray(KernelMatrix(kernel, Points(X)).diag())


def row_size(X: AnyPoints) -> int:
    """How many numbers a row holds."""
    if isinstance(X, sparse.csr_array):
        return int(2 * X.nnz // max(1, X.shape[0])) + 1  # an entry is a value and an index
    return int(X.shape[1])
