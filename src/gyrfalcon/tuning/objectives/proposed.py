"""The criterion that the tuning paper proposes: a bound on the test error that counts what the centers miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Criterion, Statistics


@dataclass(frozen=True)
class Proposed(Criterion):
    """2/n · degrees of freedom + 2/(nλ) · Tr(K - K̃) · risk + 2 risk, for targets of unit variance.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> round(gf.tuning.Proposed().evaluate(problem, gf.tuning.Exact()).value, 3)
    0.188
    """

    name: ClassVar[str] = "proposed"
    needs: ClassVar[frozenset[str]] = frozenset({"risk", "freedom", "defect"})

    def terms(self, s: Statistics) -> dict[str, Tensor]:
        return {
            "variance": 2 * s.freedom / s.total,
            "approximation": 2 * s.defect * s.risk / (s.total * s.penalty),
            "fit": 2 * s.risk,
        }
