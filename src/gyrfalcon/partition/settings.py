"""How the rows are cut into leaves."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

LARGEST_OVERLAP = 0.2  # with more, a child would hold nearly all rows of its parent


@dataclass(frozen=True)
class Partition:
    """Exact kernel ridge regressions on parts of the rows, on top of one Nyström model of all rows.

    A tree halves the rows along their leading principal direction, in units of the kernel's length scales, until each
    leaf has few enough for an exact solve. The leaves l fit what the global model g leaves,
    f(x) = g(x) + Σₗ bₗ(x) fₗ(x) with Σₗ bₗ(x) = 1, and the weights bₗ pass smoothly from one leaf to its neighbors, so
    that f is as smooth as the kernel. The work is proportional to n · leaf_rows², and every row is kept in the model.

    Parameters
    ----------
    leaf_rows : int
        The most distinct rows that a leaf may have, those it shares with neighbors included. Data of no more rows, or
        of no more than there are centers, have one leaf and no global model: they are solved exactly.
    overlap : float
        The share of the rows, on either side of a border between two leaves, that both of them learn from and between
        whose ends they are blended; from 0, which gives jumps, to 0.2. Borders higher in the tree share
        a smaller part, so that the number of shared rows stays proportional to n.
    centers : int
        How many centers the global model has.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 60, 3000)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-6, partition=gf.Partition(leaf_rows=500))
    >>> bool(np.abs(model.fit(X, y).predict(X) - y).max() < 1e-2)
    True
    """

    leaf_rows: int = 2000
    overlap: float = 0.1
    centers: int = 500

    def __post_init__(self) -> None:
        _check_count(self.leaf_rows, "leaf_rows", 2)
        _check_count(self.centers, "centers", 1)
        share = self.overlap
        if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 <= float(share) <= LARGEST_OVERLAP:
            raise ValueError(f"overlap must be a number from 0 to {LARGEST_OVERLAP}, got {share!r}")

    def shared_rows(self, left: int, right: int) -> int:
        """How many rows on either side of a border both sides learn from, given how many there are on each."""
        if self.overlap == 0:
            return 0
        rows = 2 * min(left, right)
        return max(1, math.floor(self.overlap * min(rows, math.sqrt(2 * self.leaf_rows * rows))))

    def expected_leaves(self, rows: int) -> tuple[int, int]:
        """How many leaves so many distinct rows without ties have, and how many rows are in each: what a fit costs.

        >>> import gyrfalcon as gf
        >>> gf.Partition(leaf_rows=2000, overlap=0.1).expected_leaves(20_000)
        (32, 1274)
        """
        leaves = 1
        while rows > self.leaf_rows:
            half = rows // 2
            leaves, rows = 2 * leaves, rows - half + max(0, self.shared_rows(half, half) - 1)
        return leaves, rows


def _check_count(value: Any, name: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}")
