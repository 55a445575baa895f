from __future__ import annotations

import math

_LEAST = 1000  # centers, if there are as many rows
_LEAST_OF_SQUARES = 2000  # of a least-squares fit, as long as a pass over the data is affordable
_EXACT_ROWS = 5000  # rows up to which all are centers of a least-squares fit: one factorization, and no accuracy lost
_EXACT_ROWS_OF_NEWTON = 2000  # rows up to which all are centers with another loss: a step is one factorization too
_MOST = 10_000
_ENTRIES = 3_000_000_000  # of K, that a fit may go through in each pass; 1,000 centers are taken in any case
_BUFFERS = 3  # matrices of shape (m, m) in float64 that a solver holds
_BLOCK_ROWS = 1024  # rows of K that exist at once


def automatic_count(n: int, itemsize: int, memory_budget: int, outputs: int = 1, *, exact: bool = True) -> int:
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
    exact : bool
        Whether one factorization solves the problem if all rows are centers, as for the squared loss. If not, all are
        taken up to 2,000, and up to 5,000 where that is less than twice the number there would be.

    Examples
    --------
    >>> from gyrfalcon.centers import automatic_count
    >>> [automatic_count(n, 8, 10**10) for n in (500, 5000, 100_000, 10**9)]
    [500, 5000, 3162, 1000]
    """
    useful = max(_LEAST_OF_SQUARES if exact else _LEAST, math.isqrt(100 * n * max(1, outputs)))
    if n <= (_EXACT_ROWS if exact else min(_EXACT_ROWS, max(_EXACT_ROWS_OF_NEWTON, 2 * useful))):
        wanted = n
    else:
        wanted = min(n, max(_LEAST, min(useful, _ENTRIES // max(1, n))), _MOST)
    square, linear = 8 * _BUFFERS, itemsize * _BLOCK_ROWS
    fitting = (math.sqrt(linear**2 + 4 * square * memory_budget) - linear) / (2 * square)
    return max(1, min(wanted, int(fitting)))
