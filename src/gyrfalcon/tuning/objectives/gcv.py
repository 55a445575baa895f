"""Generalized cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Criterion, Statistics


@dataclass(frozen=True)
class GCV(Criterion):
    """The training error over (1 - degrees of freedom / n)²: leave-one-out with every leverage at its mean.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> round(gf.tuning.GCV().evaluate(problem, gf.tuning.Exact()).value, 6)
    3.1e-05
    """

    name: ClassVar[str] = "gcv"
    needs: ClassVar[frozenset[str]] = frozenset({"risk", "norm", "freedom"})

    def terms(self, s: Statistics) -> dict[str, Tensor]:
        return {"error": s.error / (1 - s.freedom / s.total).square()}
