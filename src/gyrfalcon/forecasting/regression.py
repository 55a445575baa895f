"""Least squares on whitened kernel features, with one penalty for each output, from moments that can be exchanged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Whitening


@dataclass(frozen=True)
class Basis:
    """A kernel and its centers: all horizons, folds and periods share them, and their whitening."""

    kernel: Kernel
    centers: Array
    whitening: Whitening
    memory_budget: int | None = None

    @classmethod
    def of(cls, kernel: Kernel, centers: Array, memory_budget: int | None = None) -> Basis:
        K = KernelMatrix(kernel, centers, memory_budget=memory_budget)
        return cls(kernel, centers, Whitening.of(K), memory_budget)

    @cached_property
    def inverse_gram(self) -> Array:
        """That of the whitening, which every solve needs."""
        return self.whitening.inverse_gram()

    def matrix(self, X: Source) -> KernelMatrix:
        return KernelMatrix(self.kernel, X, self.centers, memory_budget=self.memory_budget)

    def moments(self, X: Source, Y: Array, origin: Array) -> Moments:
        return self.parts(X, Y, None, 1, origin)[0]

    def parts(self, X: Source, Y: Array, labels: Array | None, count: int, origin: Array) -> list[Moments]:
        """Moments of each part of the rows, in one pass over them."""
        if len(X) == 0:
            K = KernelMatrix(self.kernel, np.zeros((0, X.shape[1])), self.centers, memory_budget=self.memory_budget)
            return Moments.by_part(K, Y, None, labels, count, origin=origin, whitening=self.whitening)
        return Moments.by_part(self.matrix(X), Y, None, labels, count, origin=origin, whitening=self.whitening)


@dataclass(frozen=True)
class Regression:
    """Functions of the span of a basis, one for each output.

    Attributes
    ----------
    basis : Basis
    penalties : array of shape (t,)
    coefficients : array of shape (m, t)
    intercepts : array of shape (t,)
    """

    basis: Basis
    penalties: Array
    coefficients: Array
    intercepts: Array

    @classmethod
    def solved(cls, basis: Basis, moments: Moments, penalties: Array) -> Regression:
        """The minimizer of the mean square error plus penalty times squared norm, for each output.

        Outputs of the same penalty share one factorization.
        """
        coefficients = np.empty((len(basis.centers), len(penalties)))
        intercepts = np.empty(len(penalties))
        for penalty in np.unique(penalties):
            chosen = np.flatnonzero(penalties == penalty)
            some = of_outputs(moments, chosen)
            found, offset, _ = some.solve(float(penalty), inverse_gram=basis.inverse_gram)
            coefficients[:, chosen], intercepts[chosen] = found, offset
        return cls(basis, penalties, coefficients, intercepts)

    def predict(self, X: Source) -> Array:
        """Of shape (n, t)."""
        if len(X) == 0:
            return np.empty((0, len(self.penalties)))
        return np.asarray(self.basis.matrix(X) @ self.coefficients) + self.intercepts


def of_outputs(moments: Moments, chosen: Array) -> Moments:
    """The moments of some outputs alone; the second moments are shared."""
    sums = moments.sums
    some = replace(sums, cross=sums.cross[:, chosen], targets=sums.targets[chosen], squares=sums.squares[chosen])
    return replace(moments, sums=some, origin=moments.origin[chosen])
