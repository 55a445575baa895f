"""Leave-one-out cross-validation, from one solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gyrfalcon.solvers import LeastSquares

from .base import Evaluation, Method, Objective


@dataclass(frozen=True)
class LeaveOneOut(Objective):
    """The mean of (residual / (1 - leverage))²: the error of each row when it is left out.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> gf.tuning.LeaveOneOut().evaluate(problem, gf.tuning.Exact()).value < 1e-4
    True
    """

    name: ClassVar[str] = "loocv"

    def evaluate(self, problem: LeastSquares, method: Method, *, gradient: bool = True) -> Evaluation:
        return method.leave_one_out(problem, gradient=gradient)
