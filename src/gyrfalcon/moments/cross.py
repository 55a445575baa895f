"""Moments between two sets of rows that belong together, such as a state and its successor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix

from .moments import block_rows
from .whitening import Whitening


@dataclass(frozen=True)
class CrossMoments:
    """Σ w z zᵀ, Σ w z z′ᵀ and Σ w z′ z′ᵀ over pairs of rows x, x′, for features z = T⁻ᵀk(C, x) of the same centers.

    They add up, as `Moments` do.

    Attributes
    ----------
    whitening : Whitening
    before, between, after : arrays of shape (m, m)
    weight : float
        Σ w.
    count : int
        How many pairs there were.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> K = gf.KernelMatrix("rbf", X, X[::20])
    >>> moments = gf.moments.CrossMoments.of(K.rows(slice(199)), K.rows(slice(1, 200)))
    >>> moments.count, moments.between.shape
    (199, (10, 10))
    """

    whitening: Whitening
    before: Array
    between: Array
    after: Array
    weight: float
    count: int

    @classmethod
    def of(
        cls, K: KernelMatrix, K_next: KernelMatrix, weights: Any = None, *, whitening: Whitening | None = None
    ) -> CrossMoments:
        """Those of the rows of two matrices with the same kernel and centers, in one pass over both.

        Parameters
        ----------
        K, K_next : KernelMatrix of shape (n, m)
        weights : array or tensor of shape (n,), optional
        whitening : Whitening, optional
            Of the same centers, if it is known already.
        """
        if K.shape != K_next.shape or K.kernel != K_next.kernel or not K.shares_centers(K_next):
            raise ValueError(f"K and K_next must have the same kernel, shape and centers, got {K!r} and {K_next!r}")
        n, m = K.shape
        whitening = Whitening.of(K) if whitening is None else whitening
        w = np.ones(n) if weights is None else as_numpy(weights, np.float64).reshape(n)
        before, between, after = (np.zeros((m, m)) for _ in range(3))
        step = block_rows(K, matrices=2)
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            Z, Z_next = (whitening.features(np.array(matrix.wide_block(rows))) for matrix in (K, K_next))
            weighted, weighted_next = w[rows] * Z, w[rows] * Z_next
            before += weighted @ Z.T
            between += weighted @ Z_next.T
            after += weighted_next @ Z_next.T
        return cls(whitening, before, between, after, float(w.sum()), n)

    def __add__(self, other: CrossMoments) -> CrossMoments:
        if not self.whitening.same_as(other.whitening):
            raise ValueError("moments of other centers cannot be added: make them with the same")
        return replace(
            self,
            before=self.before + other.before,
            between=self.between + other.between,
            after=self.after + other.after,
            weight=self.weight + other.weight,
            count=self.count + other.count,
        )
