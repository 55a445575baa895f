"""Moments between two sets of rows that belong together, such as a state and its successor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix

from .moments import block_rows
from .spectral import SpectralWhitening
from .whitening import Whitening


@dataclass(frozen=True)
class CrossMoments:
    """Σ w z zᵀ, Σ w z z′ᵀ and Σ w z′ z′ᵀ over pairs of rows x, x′, for whitened features z of the same centers.

    They add up, as `Moments` do. `LagSums` makes those of frames of runs, where x′ comes some frames after x; its z
    may be longer than z′.

    Attributes
    ----------
    whitening : Whitening or SpectralWhitening
    before, between, after : arrays of shape (r, r)
        For r features: m for m centers, or fewer.
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

    whitening: Whitening | SpectralWhitening
    before: Array
    between: Array
    after: Array
    weight: float
    count: int

    @classmethod
    def of(
        cls,
        K: KernelMatrix,
        K_next: KernelMatrix,
        weights: Any = None,
        *,
        whitening: Whitening | SpectralWhitening | None = None,
    ) -> CrossMoments:
        """Those of the rows of two matrices with the same kernel and centers, in one pass over both.

        Parameters
        ----------
        K, K_next : KernelMatrix of shape (n, m)
        weights : array or tensor of shape (n,), optional
        whitening : Whitening or SpectralWhitening, optional
            Of the same centers, if it is known already.
        """
        if K.shape != K_next.shape or K.kernel != K_next.kernel or not K.shares_centers(K_next):
            raise ValueError(f"K and K_next must have the same kernel, shape and centers, got {K!r} and {K_next!r}")
        n = K.shape[0]
        whitening = Whitening.of(K) if whitening is None else whitening
        w = np.ones(n) if weights is None else as_numpy(weights, np.float64).reshape(n)
        before, between, after = (np.zeros((whitening.rank, whitening.rank)) for _ in range(3))
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
        return self._combined(other, 1)

    def __sub__(self, other: CrossMoments) -> CrossMoments:
        return self._combined(other, -1)

    def _combined(self, other: CrossMoments, sign: int) -> CrossMoments:
        if not self.whitening.same_as(other.whitening):
            raise ValueError("moments of other centers cannot be combined: make them with the same")
        return replace(
            self,
            before=self.before + sign * other.before,
            between=self.between + sign * other.between,
            after=self.after + sign * other.after,
            weight=self.weight + sign * other.weight,
            count=self.count + sign * other.count,
        )
