"""Complexity regularization: the training error plus what the degrees of freedom are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Criterion, Statistics


@dataclass(frozen=True)
class ComplexityRegularization(Criterion):
    """‖f(X) - Y‖² / n + 2 noise / n · degrees of freedom, also known as Mallows' Cp.

    Parameters
    ----------
    noise : float
        The variance of the noise. One, the default, is its upper bound for targets of unit variance.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> found = gf.tuning.ComplexityRegularization().evaluate(problem, gf.tuning.Exact())
    >>> {name: round(term, 3) for name, term in found.terms.items()}
    {'error': 0.0, 'complexity': 0.182}
    """

    noise: float = 1.0

    name: ClassVar[str] = "creg"
    needs: ClassVar[frozenset[str]] = frozenset({"risk", "norm", "freedom"})

    def terms(self, s: Statistics) -> dict[str, Tensor]:
        return {"error": s.error, "complexity": 2 * self.noise * s.freedom / s.total}
