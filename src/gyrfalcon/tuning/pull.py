"""From derivatives in the entries of k(X, C), k(C, C) and the diagonal to those in kernel parameters and centers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import RadialKernel
from gyrfalcon.kernels.explicit import refuse_explicit
from gyrfalcon.matrix import KernelMatrix


class Pull:
    """Sums of derivatives in the parameters of the kernel and in the centers."""

    def __init__(self, K: KernelMatrix):
        refuse_explicit(K.kernel, "tuning cannot differentiate it")  # k(C, C) is not what its norms are made of
        self.K = K
        self.parameters: dict[str, Array] = {}
        self.centers: Array | None = None
        self.wanted: tuple[str, ...] = ("C", "parameters")
        if K.sparse:  # neither centers nor scales of single features can be differentiated
            numbers = all(np.ndim(as_numpy(value)) == 0 for value in K.kernel.parameters().values())
            self.wanted = ("parameters",) if numbers else ()

    def add(self, gradients: Any, *, both: bool = False) -> None:
        for name, value in gradients.parameters.items():
            self._add(name, value)
        if gradients.C is not None:
            part = (2 if both else 1) * as_numpy(gradients.C, np.float64)
            self.centers = part if self.centers is None else self.centers + part

    def result(self) -> tuple[dict[str, Array], Array | None]:
        return self.parameters, self.centers

    def _add(self, name: str, value: Tensor) -> None:
        part = as_numpy(value, np.float64)
        self.parameters[name] = self.parameters[name] + part if name in self.parameters else part

    def add_between_centers(self, weights: Tensor) -> None:
        """Of Σ weights ∘ k(C, C), weights symmetric: the derivative in C is twice that in one of its places."""
        if not self.wanted:
            return
        among = self.K.square.widened()
        self.add(among.row_gradients(slice(None), weights, wanted=self.wanted), both=True)

    def add_diagonal(self, factor: float, weights: Tensor | None) -> None:
        """Of factor · Σ wᵢ k(xᵢ, xᵢ); nothing for kernels of the distance."""
        if isinstance(self.K.kernel, RadialKernel) or not self.wanted:
            return
        for name, part in self.K.diagonal_gradients(factor, weights).items():
            self._add(name, part)


def cholesky(matrix: Tensor, jitter: float, noise: Tensor | float = 0.0) -> Tensor:
    """The lower factor of a symmetric float64 matrix plus noise and jitter on its diagonal, with ten times the jitter
    until there is one."""
    scale = float(matrix.diagonal().abs().max()) if len(matrix) else 1.0
    while True:
        lifted = matrix.clone()
        lifted.diagonal().add_(noise).add_(jitter)
        if lifted.is_cpu and lifted.numel():  # SciPy's LAPACK takes three quarters of the time of PyTorch's
            upper, failed = lapack.dpotrf(lifted.numpy().T, lower=0, clean=1, overwrite_a=1)
            factor = torch.from_numpy(upper.T)
        else:
            factor, failed = torch.linalg.cholesky_ex(lifted)
        # Each row of a factor ends in a pivot that all of its entries went into.
        if not int(failed) and math.isfinite(float(factor.diagonal().sum())):
            return factor
        if not jitter < 0.1 * scale:
            raise FloatingPointError("k(C, C) is not finite, or far from positive definite")
        jitter = max(10 * jitter, torch.finfo(matrix.dtype).eps * scale)


def solve_factored(factor: Tensor, sides: Tensor) -> Tensor:
    """S⁻¹ sides for S = LLᵀ, given L."""
    half = torch.linalg.solve_triangular(factor, sides, upper=False)  # half the time of LAPACK's potrs for few sides
    solved: Tensor = torch.linalg.solve_triangular(factor.T, half, upper=True)
    return solved


def cholesky_backward(L: Tensor, in_factor: Tensor) -> Tensor:
    """The symmetric derivative in LLᵀ from that in L."""
    inner = (L.T @ in_factor).tril()
    inner.diagonal().mul_(0.5)
    left = torch.linalg.solve_triangular(L.T, inner, upper=True)
    both = torch.linalg.solve_triangular(L, left, upper=False, left=False)
    symmetric: Tensor = (both + both.T) / 2
    return symmetric
