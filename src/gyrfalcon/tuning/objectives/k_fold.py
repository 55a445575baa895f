"""k-fold cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from gyrfalcon.solvers import LeastSquares

from ..folds import Folds
from .base import Evaluation, Method, Objective


@dataclass(frozen=True)
class KFold(Objective):
    """The mean squared error of every row, of the solution on the folds that the row is not in.

    Parameters
    ----------
    folds : int
    random_state : int, optional
        How rows are shuffled before they are cut into folds; None leaves them in their order.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> gf.tuning.KFold().evaluate(problem, gf.tuning.Exact()).value < 1e-4
    True
    """

    folds: int = 5
    random_state: int | None = 0

    name: ClassVar[str] = "kfold"

    def evaluate(self, problem: LeastSquares, method: Method, *, gradient: bool = True) -> Evaluation:
        n = problem.K.shape[0]
        if not 2 <= self.folds <= n:
            raise ValueError(f"folds must lie between 2 and the {n} rows, got {self.folds}")
        return method.validation(problem, _folds(n, self.folds, self.random_state), gradient=gradient)


@lru_cache(maxsize=16)
def _folds(n: int, folds: int, random_state: int | None) -> Folds:
    """The same for every evaluation of a search."""
    labels = np.arange(n) * folds // n
    if random_state is not None:
        labels = np.random.default_rng(random_state).permutation(n) % folds
    return Folds(labels, tuple(range(folds)))
