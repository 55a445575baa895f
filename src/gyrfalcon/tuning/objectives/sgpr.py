"""The variational bound on the evidence of a sparse Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Criterion, Statistics


@dataclass(frozen=True)
class SGPR(Criterion):
    """log det(K̃ + nλI) + Yᵀ(K̃ + nλI)⁻¹Y + Tr(K - K̃) / nλ: minus twice the bound, up to a constant.

    nλ is the variance of the noise over that of the process. With `amplitude` the process has a variance of its own,
    which is put at its best, Yᵀ(K̃ + nλI)⁻¹Y / n: the second term becomes n times the logarithm of that. What ridge
    regression predicts does not depend on it, so this is the bound to tune ridge regression by.

    Parameters
    ----------
    amplitude : bool

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> round(gf.tuning.SGPR().evaluate(problem, gf.tuning.Exact()).value)
    -398
    """

    amplitude: bool = False

    name: ClassVar[str] = "sgpr"
    positive: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"risk", "defect", "log_determinant"})

    def terms(self, s: Statistics) -> dict[str, Tensor]:
        fit = s.risk / s.penalty
        return {
            "log determinant": s.log_determinant,
            "fit": s.total * (fit / s.total).log() if self.amplitude else fit,
            "approximation": s.defect / (s.total * s.penalty),
        }
