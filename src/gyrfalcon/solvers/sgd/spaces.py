"""What stochastic gradients see of a model: the values and inner products of a few points at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Linear
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Whitening
from gyrfalcon.moments.moments import BLOCK_ROWS

ROWS = 256  # looked at together, at most: their inner products are to stay in cache
GRAM_WORK = 1 << 15  # rows times features that are, so that inner products do not outweigh the rest


class Chunk(ABC):
    """Some rows φ of the points in the space that W lives in, one column of W a model."""

    @cached_property
    @abstractmethod
    def gram(self) -> Tensor:
        """⟨φᵢ, φⱼ⟩ in float64."""

    @abstractmethod
    def values(self, W: Tensor) -> Tensor:
        """⟨φᵢ, w⟩ in float64."""

    @abstractmethod
    def add(self, W: Tensor, G: Tensor) -> None:
        """W += Σᵢ φᵢ gᵢ."""

    @abstractmethod
    def squared_norms(self, W: Tensor, values: Tensor) -> Tensor:
        """This chunk's share of n·‖w‖²."""


class Space(ABC):
    """Where models live: `size` numbers each, of squared norm `peak` at most for a point."""

    size: int
    rows: int
    peak: float
    jitter: float = 0.0

    def __init__(self, K: KernelMatrix):
        self.K = K

    @abstractmethod
    def chunk(self, rows: Array) -> Chunk: ...

    def coordinates(self, beta: Tensor) -> Tensor:
        """W of coefficients."""
        return beta

    def coefficients(self, W: Tensor) -> Tensor:
        """Those of Σⱼ βⱼ k(·, cⱼ)."""
        return W


class Expansion(Space):
    """All points are centers: W are the coefficients."""

    def __init__(self, K: KernelMatrix):
        super().__init__(K)
        self.size, self.rows = K.shape[0], ROWS
        self.peak = float(K.prior_diagonal().max())

    def chunk(self, rows: Array) -> Chunk:
        return _Points(self, rows)


class _Points(Chunk):
    def __init__(self, space: Expansion, rows: Array):
        self.K, self.rows = space.K, space.K.rows(rows)
        self.index = torch.from_numpy(rows).to(self.K.device)

    @cached_property
    def gram(self) -> Tensor:
        return torch.as_tensor(self.rows.with_centers().to_dense()).double()

    def values(self, W: Tensor) -> Tensor:
        return torch.as_tensor(self.rows @ W.to(self.K.dtype)).double()

    def add(self, W: Tensor, G: Tensor) -> None:
        W[self.index] += G

    def squared_norms(self, W: Tensor, values: Tensor) -> Tensor:
        return self.K.shape[0] * (W[self.index] * values).sum(0)


class Explicit(Space):
    """The rows of X are the features: a linear kernel with the unit vectors as centers."""

    def __init__(self, K: KernelMatrix):
        super().__init__(K)
        self.size = K.shape[1]
        self.rows = features_together(self.size)
        self.peak = float(K.prior_diagonal().max())

    def chunk(self, rows: Array) -> Chunk:
        return _Features(torch.as_tensor(self.K.rows(rows).to_dense()).detach().double())


class Nystrom(Space):
    """Other centers: features T⁻ᵀk(C, x), TᵀT = k(C, C), which are the projections onto the span of the centers; T = I
    for an explicit feature map.

    They are kept if half the budget holds them, and made again in every epoch if not.
    """

    def __init__(self, K: KernelMatrix):
        super().__init__(K)
        self.whitening = Whitening.of(K, K.dtype)
        self.jitter = self.whitening.jitter
        self.size = K.shape[1]
        self.rows = features_together(self.size)
        self.peak = float(K.prior_diagonal().max())
        self._kept: Tensor | None = None
        if K.shape[0] * K.shape[1] * K.dtype.itemsize <= K.memory_budget // 2:
            self._kept = torch.empty(*K.shape, dtype=K.dtype)
            for start in range(0, K.shape[0], BLOCK_ROWS):
                rows = np.arange(start, min(K.shape[0], start + BLOCK_ROWS))
                self._kept[start : start + BLOCK_ROWS] = self._features(rows).to(K.dtype)

    def _features(self, rows: Array) -> Tensor:
        block = as_numpy(self.K.rows(rows).to_dense(), np.float64)
        return torch.from_numpy(self.whitening.features(np.array(block)).T)

    def chunk(self, rows: Array) -> Chunk:
        Z = self._features(rows) if self._kept is None else self._kept[torch.from_numpy(rows)].double()
        return _Features(Z.to(self.K.device))

    def coordinates(self, beta: Tensor) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.whitening.coordinates(as_numpy(beta)))).to(self.K.device)

    def coefficients(self, W: Tensor) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.whitening.coefficients(as_numpy(W))))


class _Features(Chunk):
    def __init__(self, Z: Tensor):
        self.Z = Z

    @cached_property
    def gram(self) -> Tensor:
        return self.Z @ self.Z.T

    def values(self, W: Tensor) -> Tensor:
        return self.Z @ W

    def add(self, W: Tensor, G: Tensor) -> None:
        W += self.Z.T @ G

    def squared_norms(self, W: Tensor, values: Tensor) -> Tensor:
        return len(self.Z) * W.square().sum(0)


def space_of(K: KernelMatrix) -> Space:
    if min(K.shape) == 0:
        raise ValueError(f"K must have rows and centers, got shape {K.shape}")
    if not (K.kernel.positive_definite or K.kernel.explicit):
        raise ValueError(f"kernel: {K.kernel!r} is not positive definite, which sgd needs: choose another")
    if K.symmetric:
        return Expansion(K)
    return Explicit(K) if _are_features(K) else Nystrom(K)


def _are_features(K: KernelMatrix) -> bool:
    if type(K.kernel) is not Linear or K.kernel != Linear() or K.shape[1] != K.n_features:
        return False
    C = K.centers.toarray() if sparse.issparse(K.centers) else as_numpy(K.centers)
    return bool(np.array_equal(C, np.eye(len(C), dtype=C.dtype)))


def features_together(size: int) -> int:
    return int(np.clip(GRAM_WORK // max(1, size), 32, ROWS))
