"""Projections of functions onto the span of centers: from values at the centers to coefficients."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_numpy
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Whitening

from .interpolation import Interpolation

PROJECTIONS = ("auto", "exact", "inexact")
MOST_FACTORED = 12_000  # centers; k(C, C) of as many takes 1.2 GB, and its factorization a minute


class Projection(Protocol):
    """θ with k(C, C) θ = h, more or less: the coefficients of the function nearest to one with values h on C.

    If β and a ridge are given, ridge·k(·, β) is added to that function.
    """

    name: str
    jitter: float

    def __call__(self, h: Tensor, beta: Tensor | None = None, ridge: float = 0.0) -> Tensor: ...

    def squared_norms(self, beta: Tensor) -> Tensor:
        """‖f‖² by output, for f = k(·, C) β."""
        ...


class ExactProjection:
    """By a Cholesky factor of k(C, C), lifted a little where it is singular; p² memory."""

    name = "exact"

    def __init__(self, K: KernelMatrix):
        self._whitening = Whitening.of(K, K.dtype)
        self.jitter = self._whitening.jitter

    def __call__(self, h: Tensor, beta: Tensor | None = None, ridge: float = 0.0) -> Tensor:
        solved = self._whitening.coefficients(self._whitening.pull(as_numpy(h)))
        theta = torch.from_numpy(np.ascontiguousarray(solved)).to(h.device)
        return theta if beta is None or not ridge else theta + ridge * beta

    def squared_norms(self, beta: Tensor) -> Tensor:
        values = self._whitening.coordinates(as_numpy(beta))
        return torch.from_numpy(np.square(values).sum(0)).to(beta.device)


class InexactProjection:
    """By a few epochs of EigenPro 2 on the centers, from zero; O(p) memory.

    Batches come in the same order every time, which makes it a linear map.
    """

    name = "inexact"
    jitter = 0.0

    def __init__(self, K: KernelMatrix, epochs: int, seed: int):
        self._between = K.square
        self._descent = Interpolation(self._between, seed=seed)
        self._epochs = epochs

    def __call__(self, h: Tensor, beta: Tensor | None = None, ridge: float = 0.0) -> Tensor:
        if beta is not None and ridge:  # projected with the rest: β beside an inexact θ would move where it all ends
            h = h + ridge * self._values(beta)
        theta = torch.zeros_like(h)
        for number in range(self._epochs):
            self._descent.epoch(theta, h, number)
        return theta

    def squared_norms(self, beta: Tensor) -> Tensor:
        return (beta * self._values(beta)).sum(0)

    def _values(self, beta: Tensor) -> Tensor:
        return torch.as_tensor(self._between @ beta.to(self._between.dtype)).double()


def checked_projection(value: str) -> str:
    if value not in PROJECTIONS:
        raise ValueError(f"projection must be one of {PROJECTIONS}, got {value!r}")
    return value


def project_with(K: KernelMatrix, wish: str, epochs: int, seed: int) -> Projection:
    """The projection that is asked for; "auto" is the exact one where its factor is not too large."""
    p = K.shape[1]
    if wish == "auto":
        wish = "exact" if p <= MOST_FACTORED and 8 * p * p <= K.memory_budget else "inexact"
    return ExactProjection(K) if wish == "exact" else InexactProjection(K, epochs, seed)
