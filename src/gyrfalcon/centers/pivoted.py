from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.kernels import Kernel

from .rows import (
    DEFAULT_BUDGET,
    Array,
    check_positive,
    checked_count,
    dense,
    diagonal,
    draw,
    eligible,
    in_double,
    row_size,
    subsample,
    take,
)

_ROWS_PER_CENTER = 20
_BLOCK = 100  # pivots proposed together
_NOISE = 1e-12  # of k(x, x): a residual below it is rounding


def pivoted(
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> AnyPoints:
    """Pivots of a randomly pivoted Cholesky factorization of K = k(X, X), in the order they were drawn.

    A row is drawn in proportion to its weight times what is left of its diagonal entry, k(x, x) - ‖F x‖², where FᵀF is
    the factorization so far. Proposals come in blocks and are thinned by rejection, so that the pivots have the same
    distribution as if drawn one by one [1]_. There are fewer when nothing is left of K. The factor is that of a
    sample of at most 20 rows per center.

    Parameters
    ----------
    kernel : Kernel
    X : array, tensor or CSR of shape (n, d)
    count : int
    weights : array of shape (n,), optional
    random : numpy.random.Generator
    memory_budget : int, optional
        Bytes for the factor, of 8 × count for each row of the sample; 1 GB if not given.

    References
    ----------
    .. [1] E. N. Epperly, J. A. Tropp, R. J. Webber, "Embrace rejection: Kernel matrix approximation by accelerated
       randomly pivoted Cholesky", 2024.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers import pivoted
    >>> X = np.array([[0.0], [0.0], [9.0], [9.0]])
    >>> np.sort(pivoted(gf.kernels.Gaussian(), X, 3, random=np.random.default_rng(0)), axis=0)
    array([[0.],
           [9.]])
    """
    check_positive(kernel, "pivoted")
    rows, weights = eligible(X, weights)
    count = min(checked_count(count), len(rows))
    budget = DEFAULT_BUDGET if memory_budget is None else memory_budget
    size = min(_ROWS_PER_CENTER * count, budget // (8 * (count + 2 * _BLOCK + row_size(X))))
    if size < min(2 * count, len(rows)):
        raise ValueError(f"memory_budget={budget} is too small for {count} pivots: raise it, or choose 'uniform'")
    rows, weights = subsample(rows, weights, size, random)
    pivots = _pivots(kernel, in_double(X, rows), weights, min(count, len(rows)), random)
    return take(X, rows[pivots] if len(pivots) else rows[draw(weights, 1, random)])


def _pivots(kernel: Kernel, points: Array, weights: Array, count: int, random: np.random.Generator) -> Array:
    full = np.maximum(diagonal(kernel, points), 0.0)
    left = full.copy()
    factor = np.empty((count, len(weights)))
    pivots = np.empty(count, dtype=np.int64)
    found, block = 0, min(_BLOCK, count)
    while found < count and (mass := np.cumsum(weights * left))[-1] > 0:
        proposed = np.searchsorted(mass, mass[-1] * random.random(block), side="right")
        proposed = np.minimum(proposed, len(mass) - 1)
        above = factor[:found]
        residual = dense(kernel, points[proposed], points[proposed]) - above[:, proposed].T @ above[:, proposed]
        accepted, corner = _thin(residual, left[proposed] * random.random(block), _NOISE * full[proposed])
        accepted = accepted[: count - found]
        if len(accepted) == 0:  # what is left of these is rounding
            left[proposed] = 0.0
            continue
        new = proposed[accepted]
        residual = dense(kernel, points[new], points) - above[:, new].T @ above
        below = factor[found : found + len(new)]
        below[:] = solve_triangular(corner[: len(new), : len(new)], residual, lower=True, overwrite_b=True)
        left -= np.einsum("ij,ij->j", below, below)
        left[left <= _NOISE * full] = 0.0
        left[new] = 0.0
        pivots[found : found + len(new)] = new
        found += len(new)
    return pivots[:found]


def _thin(residual: Array, thresholds: Array, noise: Array) -> tuple[list[int], Array]:
    """Which of the proposals to keep: those whose residual after the ones kept before exceeds its random threshold.

    Returns also the Cholesky factor of the kept part.
    """
    accepted: list[int] = []
    columns = np.zeros_like(residual)
    for i in range(len(residual)):
        pivot = residual[i, i]
        if pivot > max(thresholds[i], noise[i]):
            columns[:, len(accepted)] = residual[:, i] / np.sqrt(pivot)
            residual = residual - np.outer(columns[:, len(accepted)], columns[:, len(accepted)])
            accepted.append(i)
    return accepted, columns[accepted, : len(accepted)]
