"""The error on rows that were held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gyrfalcon.solvers import LeastSquares

from ..folds import Folds
from .base import Evaluation, Method, Objective


@dataclass(frozen=True)
class HoldOut(Objective):
    """The mean squared error on a random part of the rows, of the solution on the others.

    Parameters
    ----------
    fraction : float
        Of the rows that are held out.
    random_state : int

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> gf.tuning.HoldOut().evaluate(problem, gf.tuning.Exact()).value < 1e-4
    True
    """

    fraction: float = 0.2
    random_state: int = 0

    name: ClassVar[str] = "holdout"

    def evaluate(self, problem: LeastSquares, method: Method, *, gradient: bool = True) -> Evaluation:
        n = problem.K.shape[0]
        if n < 2:
            raise ValueError("hold-out needs at least two rows")
        labels = np.zeros(n, dtype=np.int64)
        count = min(n - 1, max(1, round(self.fraction * n)))
        labels[np.random.default_rng(self.random_state).choice(n, count, replace=False)] = 1
        return method.validation(problem, Folds(labels, (1,)), gradient=gradient)
