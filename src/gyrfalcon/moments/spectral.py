"""Whitening by eigenvalues: as many features as the centers carry, and no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, eigh

from gyrfalcon.arrays import Array
from gyrfalcon.matrix import KernelMatrix

from .whitening import not_positive

SMALLEST = 1e-12  # of the largest eigenvalue: below it, rounding of the entries of k(C, C) decides
NEGATIVE = -1e-8  # of the largest eigenvalue: below it, the kernel is to blame rather than rounding


@dataclass(frozen=True)
class SpectralWhitening:
    """The features z = Λ^(-1/2) Uᵀ k(C, x), where U Λ Uᵀ is k(C, C) without its eigenvalues that are only rounding.

    As with `Whitening`, the norm of f = vᵀz is that of v. There is no jitter: what the centers do not carry is left
    out, so that features can be divided by small moments, or not be penalized at all.

    Attributes
    ----------
    vectors : array of shape (m, r)
        U Λ^(-1/2).
    values : array of shape (r,)
        Λ, largest first.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> C = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]])
    >>> whitening = gf.moments.SpectralWhitening.of(gf.KernelMatrix("linear", C))
    >>> whitening.size, whitening.rank  # a linear kernel of points in the plane
    (3, 2)
    """

    vectors: Array
    values: Array

    @classmethod
    def of(cls, K: KernelMatrix, smallest: float = SMALLEST) -> SpectralWhitening:
        """That of the centers of K; ValueError if the kernel is not positive.

        Parameters
        ----------
        K : KernelMatrix of shape (n, m)
        smallest : float
            Eigenvalues below this share of the largest are left out.
        """
        values, vectors = eigh(K.between_centers(), overwrite_a=True)
        largest = max(float(values[-1]), 0.0) if len(values) else 0.0
        if len(values) and values[0] < NEGATIVE * largest:
            raise not_positive(K)
        kept = np.flatnonzero(values > smallest * largest)[::-1]
        values = values[kept]
        return cls(np.asfortranarray(vectors[:, kept] / np.sqrt(values)), values)

    @property
    def size(self) -> int:
        """m, the number of centers."""
        return len(self.vectors)

    @property
    def rank(self) -> int:
        """r, the number of features."""
        return len(self.values)

    def features(self, block: Array) -> Array:
        """z of rows k(x, C), as columns; the block is in C order and float64."""
        if 0 in (self.rank, len(block)):
            return np.zeros((self.rank, len(block)), order="F")
        return np.asarray(blas.dgemm(1.0, self.vectors, block.T, trans_a=True))

    def coefficients(self, v: Array) -> Array:
        """β, the coefficients of vᵀz at the centers."""
        return np.asarray(self.vectors @ v)

    def project(self, values: Array, penalty: float) -> Array:
        """v of the functions vᵀz that minimize the mean square error at the centers plus penalty ‖v‖².

        Parameters
        ----------
        values : array of shape (m, t)
            What the functions should be at the centers.
        penalty : float
        """
        shrinkage = self.values / (self.values + penalty * self.size)
        return np.asarray(shrinkage[:, None] * (self.vectors.T @ values))

    def same_as(self, other: object) -> bool:
        """Whether the features are the same."""
        return self is other or (
            isinstance(other, SpectralWhitening)
            and np.array_equal(self.vectors, other.vectors)
            and np.array_equal(self.values, other.values)
        )
