"""Conformal intervals: quantiles of the errors of forecasts that were made before what they forecast was known."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array


def read_levels(level: Any) -> tuple[float, ...]:
    """Levels in percent, as a tuple."""
    if level is None:
        return ()
    given: Sequence[Any] = [level] if isinstance(level, numbers.Real) else list(level)
    for one in given:
        if isinstance(one, bool) or not isinstance(one, numbers.Real) or not 0 < float(one) < 100:
            raise ValueError(f"level must be a percentage between 0 and 100, or several, got {level!r}")
    return tuple(float(one) for one in given)


def bounds(errors: Array, level: float) -> tuple[Array, Array]:
    """What to add to forecasts so that both sides are missed by (100 - level) / 2 percent of them.

    Of n errors e_(1) ≤ … ≤ e_(n), the upper bound is the one of rank ⌈(n + 1)(1 + level/100)/2⌉, and infinite if there
    are too few of them; the lower one mirrors it.

    Parameters
    ----------
    errors : array of shape (n, horizons)
        Truth less forecast, each column sorted.
    level : float
        In percent.

    >>> import numpy as np
    >>> lower, upper = bounds(np.arange(1.0, 100.0)[:, None], 90)
    >>> lower.tolist(), upper.tolist()
    ([5.0], [95.0])
    """
    n = len(errors)
    rank = int(np.ceil((n + 1) * (1 + level / 100) / 2 - 1e-9))
    if rank > n:
        return np.full(errors.shape[1], -np.inf), np.full(errors.shape[1], np.inf)
    return errors[n - rank], errors[rank - 1]
