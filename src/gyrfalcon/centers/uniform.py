from __future__ import annotations

import numpy as np

from gyrfalcon.arrays import AnyPoints
from gyrfalcon.kernels import Kernel

from .rows import Array, checked_count, draw, eligible, take


def uniform(
    kernel: Kernel,
    X: AnyPoints,
    count: int,
    *,
    weights: Array | None = None,
    penalty: float = 1e-6,
    random: np.random.Generator,
    memory_budget: int | None = None,
) -> AnyPoints:
    """Rows of X without replacement, each in proportion to its weight among those not yet drawn.

    Neither the kernel nor the penalty is looked at.

    Parameters
    ----------
    X : array, tensor or CSR of shape (n, d)
    count : int
        How many; all rows of positive weight if there are fewer.
    weights : array of shape (n,), optional
    random : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.centers import uniform
    >>> X = np.arange(6.0)[:, None]
    >>> uniform(gf.kernels.Gaussian(), X, 2, weights=np.array([0, 0, 0, 1, 1, 0]), random=np.random.default_rng(0))
    array([[3.],
           [4.]])
    """
    rows, weights = eligible(X, weights)
    return take(X, rows[draw(weights, checked_count(count), random)])
