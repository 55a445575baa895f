"""The leading eigenfunctions of a kernel on data, seen through a sample: what preconditions EigenPro."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.eigensystem import top_eigensystem
from gyrfalcon.matrix import KernelMatrix

SAMPLE, LARGE_SAMPLE, LARGE = 2000, 6000, 200_000  # rows of the sample, up to that many rows and beyond
SHARE = 8  # a sample shows that part of its size as eigenfunctions that mean something beyond it
RESOLVED = 1e-8  # smaller eigenvalues, relative to the first, have eigenvectors that are mostly rounding
ROUGHLY: dict[str, Any] = {"tolerance": 0.02, "max_products": 8}  # how well a curvature need be known
LEAST_FUNCTIONS = 256  # cheap in samples of any size; those of small problems are all there are


def sample_size(n: int) -> int:
    return min(n, SAMPLE if n <= LARGE else LARGE_SAMPLE)


def function_count(sample: int) -> int:
    """How many eigenfunctions a sample of that size is asked for."""
    return min(sample, max(sample // SHARE, LEAST_FUNCTIONS))


def _how_many(values: Array, functions: Array, diagonal: Array, reach: float) -> tuple[int, float]:
    """The largest q with peak ≤ reach · tail, and the peak: the largest k(x, x) - Σᵢ (1 - λ_q/λᵢ) ψᵢ(x)² over i ≤ q."""
    squares = functions**2
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
    diagonal = np.maximum(diagonal, squares.sum(1))  # less would be the error of an inexact projection
    left = diagonal[:, None] - np.cumsum(squares, 1) + values * np.cumsum(squares * inverse, 1)
    peaks = np.maximum(left.max(0), 0.0)
    within = np.flatnonzero((peaks <= reach * values) & (values > RESOLVED * values[0]))
    q = int(within[-1]) if len(within) else 0
    return q + 1, float(peaks[q])


@dataclass(frozen=True)
class Eigenfunctions:
    """ψᵢ = k(·, S) uᵢ + bᵢ, orthonormal in the space of k, and P = I - Σᵢ dᵢ ψᵢ ⊗ ψᵢ with dᵢ = 1 - λ_last/λᵢ.

    P brings the leading eigenvalues λᵢ of the average of k(·, x) ⊗ k(·, x) over the data down to the last one that is
    known. It is positive definite whatever the sample, so it changes the speed of a descent and not where it ends.

    Attributes
    ----------
    sample : KernelMatrix of shape (s, s)
        k(S, S).
    U : tensor of shape (s, q)
    constants : tensor of shape (1, q)
        bᵢ, of functions with an intercept.
    damping : tensor of shape (q, 1)
        dᵢ.
    tail : float
        λ_last, to which the spectrum falls.
    peak : float
        The largest value of P's kernel on the data looked at: what limits the step of a single point.
    """

    sample: KernelMatrix
    U: Tensor
    constants: Tensor
    damping: Tensor
    tail: float
    peak: float

    @classmethod
    def of(
        cls,
        sample: KernelMatrix,
        data: KernelMatrix | None = None,
        roots: Array | None = None,
        *,
        count: int,
        reach: float,
        own: tuple[Array, Array] | None = None,
        ridge: float = 0.0,
        penalty: float = 0.0,
        constant: float = 0.0,
        seed: int = 0,
    ) -> Eigenfunctions:
        """Those of the data X, whose rows count by the squares of the roots, among functions on S.

        `sample` is k(S, S) and `data` k(X, S), or None if the data are the sample.

        The leading eigenfunctions on S itself span the space in which those on X are found (Rayleigh and Ritz).

        At most `count` are looked for, and as many used as leave peak / tail within `reach`: with more, P
        would slow the leading directions down too far.

        `own` are some rows of X and k(x, x) at them, or what a projection leaves of it; for S = X they are not needed.
        `penalty` is that of ‖f‖² beside the average over the data. `ridge`, for S = X only, is added to k where a point
        meets itself. `constant` is the squared length of the intercept 1, as an element orthogonal to all others;
        without an intercept it is zero.
        """
        between = np.array(sample.wide_block(slice(None)))
        between[np.diag_indices_from(between)] += ridge
        values, vectors = top_eigensystem(between, min(count + 1, len(between)), seed=seed, max_products=2)
        kept = values > max(RESOLVED, len(between) * torch.finfo(sample.dtype).eps) * values[0]
        kept[0] = True  # a kernel that vanishes has an eigenfunction too, zero
        basis = vectors[:, kept] / np.sqrt(np.where(values > 0, values, 1.0)[kept])

        if data is None:
            seen = between @ basis
        else:
            seen = as_numpy(data.widened() @ torch.from_numpy(np.ascontiguousarray(basis)).to(data.device))
        squares = np.ones(len(seen)) if roots is None else roots**2
        if constant:
            seen = np.concatenate([seen, np.full((len(seen), 1), np.sqrt(constant))], 1)
        weighted = seen * np.sqrt(squares)[:, None]
        ritz, rotation = eigh(weighted.T @ weighted / len(seen))
        ritz, rotation = np.maximum(ritz[::-1], 0.0) + penalty, rotation[:, ::-1]
        rows, diagonal = (np.arange(len(seen)), between.diagonal()) if own is None else own
        count, peak = _how_many(ritz, (weighted @ rotation)[rows], squares[rows] * (diagonal + constant), reach)
        ritz, rotation = ritz[:count], rotation[:, :count]
        tail = float(ritz[-1])
        damping = 1 - tail / ritz if tail > 0 else np.zeros_like(ritz)
        size = basis.shape[1]
        on: dict[str, Any] = {"dtype": torch.float64, "device": sample.device}
        return cls(
            sample=sample,
            U=torch.as_tensor(basis @ rotation[:size], **on),
            constants=torch.as_tensor(np.sqrt(constant) * rotation[size:].sum(0, keepdims=True), **on),
            damping=torch.as_tensor(damping[:, None], **on),
            tail=tail,
            peak=peak,
        )

    def at(self, block: Tensor) -> Tensor:
        """ψ at points x, from k(x, S)."""
        return block @ self.U.to(block.dtype) + self.constants.to(block.dtype)

    def excess(self, inner: Tensor) -> Tensor:
        """Coefficients on S of Σᵢ dᵢ ψᵢ aᵢ, which P takes away from a function with inner products a with the ψᵢ."""
        return self.U @ (self.damping * inner)

    def excess_constant(self, inner: Tensor) -> Tensor:
        """The intercept of the same."""
        return self.constants @ (self.damping * inner)

    def curvature(self, gram: Any, functions: Tensor) -> float:
        """The largest eigenvalue of P's kernel between points, from k between them, of which products are enough, and
        ψ at them.

        A step of 1/curvature on these points alone overshoots in no direction; one of 2/curvature begins to. It
        is zero where the kernel vanishes, and no step does anything.
        """
        damped = as_numpy(functions).astype(np.float64) * np.sqrt(as_numpy(self.damping)[:, 0])
        return max(0.0, float(top_eigensystem(_Less(gram, damped), 1, **ROUGHLY)[0][0]))


@dataclass(frozen=True)
class _Less:
    """gram - columns columnsᵀ, as products."""

    gram: Any
    columns: Array
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.columns), len(self.columns)

    def __matmul__(self, block: Array) -> Array:
        like = torch.from_numpy(block).to(self.gram.dtype).to(self.gram.device)
        product: Array = as_numpy(self.gram @ like) - self.columns @ (self.columns.T @ block)
        return product
