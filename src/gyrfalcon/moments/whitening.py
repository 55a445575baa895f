"""Whitening: features of points in which the norm of a function is the length of its vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import blas, lapack

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.triangles import SingularError, cholesky_with_jitter, mirror
from gyrfalcon.matrix import KernelMatrix

# Large products here are SciPy's: NumPy has a BLAS of its own, and the threads of one hinder those of the other.

KEPT_JITTER = 0.01  # the share of the jitter that stays in the problem, so that null directions keep a curvature
FLOAT64_JITTER = 1e-10  # relative to k(c, c): triangular solves lose half the digits in null directions


def noise_floor(m: int, dtype: torch.dtype) -> float:
    """The jitter that hides rounding in the entries of K, relative to their size, from a factorization of k(C, C).

    Entries carry errors of about ε, so KᵀK/n carries ε²·I, which in directions where k(C, C) is below √m·ε outweighs
    what a preconditioner expects there, k(C, C)²/m. Lifting k(C, C) to that level keeps the preconditioned system well
    conditioned; the problem itself does not change.
    """
    return FLOAT64_JITTER if dtype == torch.float64 else float(3 * np.sqrt(m) * torch.finfo(dtype).eps)


@dataclass(frozen=True)
class Whitening:
    """T, upper triangular, with TᵀT = k(C, C) + jitter·I. The features z = T⁻ᵀk(C, x) make ‖f‖² = ‖v‖² for f = vᵀz.

    The columns of an explicit feature map are such features already: then T is None and stands for the identity.

    Attributes
    ----------
    T : array of shape (m, m) or None
        In Fortran order; what is below the diagonal is not meant to be read.
    size : int
        m.
    jitter : float
    scale : float
        The largest k(c, c).
    rounding : float
        How far entries of K are off.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> C = np.array([[0.0], [1.0]])
    >>> whitening = gf.moments.Whitening.of(gf.KernelMatrix("rbf", C, C))
    >>> Z = whitening.features(gf.kernels.Gaussian()(C))
    >>> np.allclose(Z.T @ Z, gf.kernels.Gaussian()(C))  # inner products of features are the kernel
    True
    """

    T: Array | None
    size: int
    jitter: float
    scale: float
    rounding: float

    @classmethod
    def of(cls, K: KernelMatrix, entries: torch.dtype = torch.float64) -> Whitening:
        """Factor k(C, C) for a K whose entries are made in that type; ValueError if the kernel is not positive."""
        m = K.shape[1]
        if K.kernel.explicit:
            return cls(None, m, 0.0, 1.0, torch.finfo(entries).eps)
        T = np.asfortranarray(K.between_centers())
        scale = float(T.diagonal().max(initial=0.0))
        try:
            jitter = cholesky_with_jitter(T, noise_floor(m, entries) * scale)
        except SingularError:
            raise not_positive(K) from None
        return cls(T, m, jitter, scale, float(torch.finfo(entries).eps) * scale)

    def features(self, block: Array) -> Array:
        """z of rows k(x, C), as columns; the block, in C order and float64, may be overwritten."""
        return block.T if self.T is None else np.asarray(blas.dtrsm(1.0, self.T, block.T, trans_a=1, overwrite_b=1))

    def pull(self, b: Array) -> Array:
        """T⁻ᵀb."""
        return b if self.T is None else np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(b), trans_a=1))

    def coefficients(self, v: Array) -> Array:
        """β = T⁻¹v, the coefficients of vᵀz at the centers."""
        return v if self.T is None else np.asarray(blas.dtrsm(1.0, self.T, np.asfortranarray(v)))

    def coordinates(self, beta: Array) -> Array:
        """v = Tβ."""
        return beta if self.T is None else np.asarray(blas.dtrmm(1.0, self.T, np.asfortranarray(beta)))

    def lower(self, device: torch.device) -> torch.Tensor:
        """Tᵀ as a tensor."""
        if self.T is None:
            return torch.eye(self.size, dtype=torch.float64, device=device)
        return torch.from_numpy(self.T.T).tril().to(device)

    @property
    def rank(self) -> int:
        """The number of features, which is m."""
        return self.size

    def same_as(self, other: object) -> bool:
        """Whether the features are the same: equal triangles, whatever is below their diagonals."""
        if not isinstance(other, Whitening):
            return False
        if self.T is other.T:
            return self.size == other.size
        if self.T is None or other.T is None or self.size != other.size:
            return False
        return np.array_equal(np.triu(self.T), np.triu(other.T))

    def leading(self, size: int) -> Whitening:
        """That of the first centers alone: T is triangular, so the first features do not see the later centers."""
        T = None if self.T is None else np.asfortranarray(self.T[:size, :size])
        return Whitening(T, size, self.jitter, self.scale, self.rounding)

    def widened(self, K: KernelMatrix) -> Whitening:
        """That of more centers, of which these are the first: T is bordered, so the first features stay what they are.

        The new diagonal block is the triangle of what the old centers leave of the kernel at the new ones.
        """
        if self.T is None:
            raise ValueError("features of an explicit map have no centers: fit the model anew with more of them")
        old, size = self.size, K.shape[1]
        gram = np.asfortranarray(K.between_centers())
        T = np.zeros((size, size), order="F")
        T[:old, :old] = self.T
        T[:old, old:] = border = self.pull(gram[:old, old:])
        rest = np.asfortranarray(gram[old:, old:] - border.T @ border)
        try:
            cholesky_with_jitter(rest, self.jitter)
        except SingularError:
            raise not_positive(K) from None
        T[old:, old:] = rest
        return Whitening(T, size, self.jitter, max(self.scale, float(gram.diagonal().max())), self.rounding)

    def excess(self, penalty: float) -> float:
        """The multiple of ‖β‖² to take out of an objective with that penalty.

        The jitter adds penalty·jitter, of which all but a hundredth goes: that keeps a curvature in null directions of
        k(C, C). Rounding stays: entries of K that are wrong by ε cost ε²‖β‖² on average, here and in every prediction,
        and the solver had better know.
        """
        return penalty * self.jitter * (1 - KEPT_JITTER) - self.rounding**2

    def inverse_gram(self) -> Array:
        """T⁻ᵀT⁻¹, which is ‖β‖² in the coordinates v = Tβ."""
        if self.T is None or self.size == 0:
            return np.eye(self.size, order="F")
        gram: Array = blas.dsyrk(1.0, np.asfortranarray(np.triu(lapack.dtrtri(self.T)[0])), trans=1)
        mirror(gram, from_lower=False)
        return gram


class NotPositiveError(SingularError, ValueError):
    """k(C, C) cannot be factored: the kernel is not positive definite on these centers."""


def not_positive(K: KernelMatrix) -> NotPositiveError:
    """What to say when k(C, C) cannot be factored."""
    return NotPositiveError(f"kernel: {K.kernel!r} is not positive definite on these centers: choose another")
