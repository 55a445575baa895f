from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from .kernel_matrix import KernelMatrix


class Transposed:
    """Kᵀ, sharing everything with K."""

    __array_ufunc__ = None

    def __init__(self, matrix: KernelMatrix):
        self.T = matrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.T.shape[1], self.T.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        return self.T.dtype

    @property
    def device(self) -> torch.device:
        return self.T.device

    def __matmul__(self, W: Any) -> Any:
        return self.T.rmv(W)

    def __rmatmul__(self, V: Any) -> Any:
        return flip(self.T @ flip(V))

    def to_dense(self) -> Any:
        """All of Kᵀ, for small matrices."""
        return self.T.to_dense().T

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


def flip(vectors: Any) -> Any:
    """The transposed matrix, or the vector as it is."""
    vectors = vectors if isinstance(vectors, Tensor) else np.asarray(vectors)
    return vectors.T if vectors.ndim == 2 else vectors
