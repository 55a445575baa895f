"""What every objective of tuning is, and what its value and gradient come as."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from gyrfalcon.solvers import LeastSquares

from ..folds import Folds

Array = np.ndarray[Any, Any]


class Gradient(NamedTuple):
    """Derivatives of an objective: in the penalty, in each parameter of the kernel by name, and in the centers.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> gradient = gf.tuning.GCV().evaluate(problem, gf.tuning.Exact()).gradient
    >>> sorted(gradient.parameters), gradient.centers.shape
    (['length_scale'], (30, 1))
    """

    penalty: float
    parameters: dict[str, Array]
    centers: Array | None


class Evaluation(NamedTuple):
    """An objective's value, the terms that add up to it, and its gradient if that was asked for.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> evaluation = gf.tuning.Proposed().evaluate(problem, gf.tuning.Exact(), gradient=False)
    >>> evaluation.gradient is None, abs(sum(evaluation.terms.values()) - evaluation.value) < 1e-12
    (True, True)
    """

    value: float
    terms: dict[str, float]
    gradient: Gradient | None


def evaluation(value: Tensor, terms: dict[str, Tensor]) -> Evaluation:
    """Checked to be a number, without a gradient yet."""
    number = float(value.detach())
    if not math.isfinite(number):
        raise FloatingPointError(f"the objective is {number}")
    return Evaluation(number, {name: float(term.detach()) for name, term in terms.items()}, None)


@dataclass(frozen=True)
class Statistics:
    """What the criteria are made of, as tensors that gradients flow into; outputs are averaged.

    Attributes
    ----------
    total : float
        n, or the sum of the weights.
    penalty : λ
    risk : ‖f(X) - Y‖² / n + λ ‖f‖²
    norm : ‖f‖²
    freedom : Tr((K̃ + nλI)⁻¹ K̃), the degrees of freedom
    defect : Tr(K - K̃), what the centers miss
    log_determinant : log det(K̃ + nλI)

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.tuning import Statistics
    >>> one = torch.tensor(1.0)
    >>> statistics = Statistics(100.0, 0.01 * one, 0.5 * one, 10 * one, 5 * one, 0 * one, 0 * one)
    >>> round(float(statistics.error), 3)  # risk - λ ‖f‖²
    0.4
    """

    total: float
    penalty: Tensor
    risk: Tensor
    norm: Tensor
    freedom: Tensor
    defect: Tensor
    log_determinant: Tensor

    @property
    def error(self) -> Tensor:
        """‖f(X) - Y‖² / n."""
        return self.risk - self.penalty * self.norm


class Method(Protocol):
    """How objectives are evaluated: exactly, or with random probes and iterative solves."""

    def criterion(self, problem: LeastSquares, objective: Criterion, *, gradient: bool) -> Evaluation: ...

    def validation(self, problem: LeastSquares, folds: Folds, *, gradient: bool) -> Evaluation: ...

    def leave_one_out(self, problem: LeastSquares, *, gradient: bool) -> Evaluation: ...


class Objective(ABC):
    """What tuning minimizes over the penalty, the kernel's parameters and the centers.

    The targets should have mean zero: the problem is taken without its intercept.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> small = gf.solvers.LeastSquares(problem.K, problem.Y, penalty=1e-6)
    >>> large = gf.solvers.LeastSquares(problem.K, problem.Y, penalty=1.0)
    >>> objective, exact = gf.tuning.LeaveOneOut(), gf.tuning.Exact()
    >>> objective.evaluate(small, exact).value < objective.evaluate(large, exact).value
    True
    """

    name: ClassVar[str]
    positive: ClassVar[bool] = True  # an error, of which falls by the same factor count the same

    @abstractmethod
    def evaluate(self, problem: LeastSquares, method: Method, *, gradient: bool = True) -> Evaluation:
        """The objective at the penalty, kernel and centers of a problem.

        Parameters
        ----------
        problem : LeastSquares
        method : Exact or Stochastic
        gradient : bool
        """


class Criterion(Objective):
    """An objective that is a formula in `Statistics`.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> class Risk(gf.tuning.Criterion):
    ...     name, needs = "risk", frozenset({"risk"})
    ...
    ...     def terms(self, s):
    ...         return {"risk": s.risk}
    >>> 0 < Risk().evaluate(problem, gf.tuning.Exact()).value < 1e-3
    True
    """

    needs: ClassVar[frozenset[str]]

    @abstractmethod
    def terms(self, s: Statistics) -> dict[str, Tensor]:
        """The terms whose sum is minimized."""

    def evaluate(self, problem: LeastSquares, method: Method, *, gradient: bool = True) -> Evaluation:
        return method.criterion(problem, self, gradient=gradient)
