"""From rows and targets to fitted leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gyrfalcon.arrays import AnyPoints, Array, in_double
from gyrfalcon.centers import distinct, merge
from gyrfalcon.centers.rows import on_host, take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel, inputs_of
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.plan import default_budget
from gyrfalcon.progress import Bar
from gyrfalcon.threads import in_turn

from .coordinates import coordinates_of
from .directions import Direction, leading_direction
from .function import Base, LocalFunction
from .leaves import MATRICES, LeafSolution, solve_leaf
from .settings import Partition
from .tree import grow


def fit_partition(
    kernel: Kernel,
    X: AnyPoints,
    Y: Array,
    noise: float,
    settings: Partition,
    *,
    base: Base | None = None,
    weights: Array | None = None,
    intercept: bool = False,
    memory_budget: int | None = None,
    threads: int = 1,
    direction: Direction = leading_direction,
    bar: Bar | None = None,
) -> LocalFunction:
    """Fit exact leaves to what a global model leaves of the targets.

    In each leaf the function minimizes Σᵢ wᵢ (fₗ(xᵢ) - rᵢ)² + noise ‖fₗ‖² over all rows of the leaf, r = y - g(x).
    Equal rows are one row with the sum of their weights. The result does not depend on the order of the rows.

    Parameters
    ----------
    kernel : Kernel
    X : array, tensor or CSR of shape (n, d)
    Y : array of shape (n, t)
        Targets, from which the values of `base` are taken.
    noise : float
        The penalty of an estimator times the sum of the weights.
    settings : Partition
        Of which `centers` is for whoever makes `base`.
    base : callable, optional
        The global model g: values of shape (n, t) at points like X.
    weights : array of shape (n,), optional
    intercept : bool
        Whether each leaf has an intercept, which is not penalized: without a global model that has one.
    memory_budget : int, optional
        Bytes that temporaries may take; a quarter of the free memory if not given.
    threads : int
        How many leaves are solved at the same time, while the budget allows it.
    direction : callable
        What rows are split along.
    bar : Bar, optional
        Shows how many leaves are solved.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.partition import fit_partition
    >>> X = np.linspace(0, 20, 1000)[:, None]
    >>> f = fit_partition(gf.kernels.Gaussian(1.0), X, np.sin(X), 1e-3, gf.Partition(leaf_rows=300))
    >>> f.n_leaves, bool(np.abs(f.predict(X) - np.sin(X)).max() < 1e-2)
    (8, True)
    """
    if isinstance(X, Source):
        raise TypeError("X must be in memory, to be sorted into leaves: read it with .to_array()")
    points, group = distinct(on_host(X), weights)
    targets, summed, spread = merge(Y, weights, group, points.shape[0])
    below = None if base is None else base(points)
    inputs = inputs_of(kernel, points)
    tree, leaves = grow(inputs, coordinates_of(kernel, inputs), settings, direction=direction)
    merged = None if (summed == 1).all() else summed
    budget = default_budget(torch.device("cpu")) if memory_budget is None else memory_budget
    solve = _solver_of_leaves(kernel, points, (targets, below), merged, noise, budget, intercept=intercept)
    solutions = []
    for solution in in_turn(solve, leaves, _workers(leaves, budget, threads)):
        solutions.append(solution)
        if bar is not None:
            bar.show(len(leaves), "", len(solutions))
    rows = np.concatenate(leaves)
    return LocalFunction(
        kernel=kernel,
        tree=tree,
        points=take(points, rows),
        offsets=np.cumsum([0, *map(len, leaves)], dtype=np.int64),
        coefficients=np.concatenate([solution.coefficients for solution in solutions]),
        intercepts=np.stack([solution.intercept for solution in solutions]),
        weights=None if merged is None else merged[rows],
        noise=float(noise),
        scale=np.sum([solution.energy for solution in solutions], axis=0) / summed[rows].sum(),
        spread=spread,
        base=base,
    )


def _solver_of_leaves(
    kernel: Kernel,
    points: Any,
    values: tuple[Array, Array | None],
    weights: Array | None,
    noise: float,
    budget: int,
    *,
    intercept: bool,
) -> Callable[[Array], LeafSolution]:
    """What solves for the rows of one leaf, given the targets and the values of the global model."""

    def solve(rows: Array) -> LeafSolution:
        K = KernelMatrix(kernel, Points(in_double(take(points, rows))), memory_budget=budget)
        Y, below, w = (None if part is None else part[rows] for part in (*values, weights))
        assert Y is not None
        return solve_leaf(K, Y, below, w, noise, intercept=intercept)

    return solve


def _workers(leaves: list[Array], budget: int, threads: int) -> int:
    """How many leaves the budget allows to be solved at the same time."""
    largest = max(map(len, leaves))
    needed = 8 * MATRICES * largest**2
    if needed > budget:
        raise ValueError(
            f"partition: a leaf of {largest:,} rows takes {needed:,} bytes, more than memory_budget={budget:,}: "
            "lower leaf_rows, or raise memory_budget"
        )
    return max(1, min(threads, len(leaves), budget // needed))
