"""The weighted, penalised least-squares problem every solver here solves, and what they share of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.matrix import KernelMatrix

Array = np.ndarray[Any, Any]


@dataclass
class LeastSquares:
    """min over f, b of Σᵢ wᵢ (f(xᵢ) + b - yᵢ)² / Σᵢ wᵢ + penalty ‖f‖², f = Σⱼ βⱼ k(·, cⱼ).

    With G = KᵀWK / Σw and right sides KᵀWY / Σw, β solves (G + penalty·Kmm) β = right - b·(KᵀW1 / Σw). The intercept is
    exact: one more right-hand side, KᵀW1, and then a linear equation for b.

    Parameters
    ----------
    K : KernelMatrix of shape (n, m)
    Y : tensor of shape (n, t)
    penalty : float
    weights : tensor of shape (n, 1), optional
    intercept : bool

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500)[:, None]
    >>> Y = torch.sin(X)
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> solution = gf.solvers.falkon(gf.solvers.LeastSquares(K, Y, penalty=1e-6))
    >>> bool((K @ solution.coefficients.float() - Y).abs().max() < 0.01)
    True
    """

    K: KernelMatrix
    Y: Tensor
    penalty: float
    weights: Tensor | None = None
    intercept: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.Y.ndim != 2 or len(self.Y) != self.K.shape[0]:
            raise ValueError(f"Y must have {self.K.shape[0]} rows and two dimensions, got shape {tuple(self.Y.shape)}")
        if not self.penalty >= 0 or not np.isfinite(self.penalty):
            raise ValueError(f"penalty must be a finite number, zero or more, got {self.penalty!r}")

    @property
    def total_weight(self) -> float:
        return float(self.K.shape[0]) if self.weights is None else float(self.weights.sum(dtype=torch.float64))

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

    def right_sides(self) -> Array:
        """KᵀWY / Σw, with KᵀW1 / Σw as a last column if there is an intercept; float64."""
        Y = torch.cat([self.Y, torch.ones_like(self.Y[:, :1])], 1) if self.intercept else self.Y
        with self.timed("right_side"):
            sides = self.K.rmv(Y if self.weights is None else self.weights * Y, dtype=torch.float64)
        return as_numpy(sides) / self.total_weight

    def split(self, solved: Array, sides: Array) -> tuple[Tensor, Tensor]:
        """Coefficients and intercept from the solutions for all right sides."""
        if not self.intercept:
            return torch.from_numpy(np.ascontiguousarray(solved)), torch.zeros(solved.shape[1], dtype=torch.float64)
        beta, ones = solved[:, :-1], solved[:, -1]
        weights = torch.ones_like(self.Y[:, :1]) if self.weights is None else self.weights
        mean = as_numpy((weights.double() * self.Y.double()).sum(0)) / self.total_weight
        # 1ᵀW(y - Kβ) = b 1ᵀW(1 - K β₁), both sides over Σw
        offset = (mean - sides[:, -1] @ beta) / max(1 - float(sides[:, -1] @ ones), np.finfo(float).tiny)
        return torch.from_numpy(np.ascontiguousarray(beta - np.outer(ones, offset))), torch.from_numpy(offset)


def as_numpy(values: Any) -> Array:
    """The same numbers as an array in main memory."""
    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
