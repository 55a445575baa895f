from __future__ import annotations

import math

_LEAST = 1000  # centers, if there are as many rows
_LEAST_USEFUL = 2000  # as long as a pass over the data is affordable
_EXACT_ROWS = 5000  # rows up to which all are centers: a solve or a Newton step is one factorization, and exact
_MOST = 10_000
_ENTRIES = 3_000_000_000  # of K, that a fit may go through in each pass; 1,000 centers are taken in any case
_BUFFERS = 3  # matrices of shape (m, m) in float64 that a solver holds
_BLOCK_ROWS = 1024  # rows of K that exist at once


def automatic_count(n: int, itemsize: int, memory_budget: int, outputs: int = 1) -> int:
    """How many centers to choose among n rows: all up to 5,000, then the larger of 2,000 and 10 √(n · outputs), at most
    10,000 or what fits.

    Beyond 400,000 rows the number falls again, down to 1,000, so that a pass over the data stays affordable.

    Parameters
    ----------
    n : int
    itemsize : int
        Bytes of an entry of X.
    memory_budget : int
        Bytes for three m × m matrices in float64 and a block of K.
    outputs : int
        Columns of the targets: many functions need more centers than one does.

    Examples
    --------
    >>> from gyrfalcon.centers import automatic_count
    >>> [automatic_count(n, 8, 10**10) for n in (500, 5000, 100_000, 10**9)]
    [500, 5000, 3162, 1000]
    """
    if n <= _EXACT_ROWS:
        wanted = n
    else:
        useful = max(_LEAST_USEFUL, math.isqrt(100 * n * max(1, outputs)))
        wanted = min(n, max(_LEAST, min(useful, _ENTRIES // max(1, n))), _MOST)
    square, linear = 8 * _BUFFERS, itemsize * _BLOCK_ROWS
    fitting = (math.sqrt(linear**2 + 4 * square * memory_budget) - linear) / (2 * square)
    return max(1, min(wanted, int(fitting)))
