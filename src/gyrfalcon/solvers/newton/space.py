"""What Newton's method asks of the unknowns that it works in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from ..risk import Risk
from ..solution import Snapshot
from ..solver import Start


class Direction(NamedTuple):
    """A Newton direction, found roughly.

    Attributes
    ----------
    x : array
        Its unknowns.
    change : tensor of shape (n, t)
        Its predictions, which those of a step of length s change by s times.
    cross, square : float
        ‖f + s·d‖² = ‖f‖² + 2s·cross + s²·square.
    iterations : int
        Of conjugate gradients.
    """

    x: Array
    change: Tensor
    cross: float
    square: float
    iterations: int


class Space(ABC):
    """Unknowns x of f + b = F, and the second-order model of the risk around a point of them.

    `expand` makes the model at a point; `residual` and `direction` answer for the point that was expanded last.
    """

    scale: float  # the largest k(c, c)
    jitter: float  # what was added to the diagonal of k(C, C)
    passes: int = 0

    def __init__(self, problem: Risk):
        self.problem = problem
        self.t = problem.Y.shape[1]

    @abstractmethod
    def point(self, start: Start | None) -> Array:
        """x of coefficients, or of coefficients and intercept."""

    @abstractmethod
    def predict(self, x: Array) -> Tensor:
        """F, in one pass."""

    def begin(self, start: Start | None) -> tuple[Array, Tensor]:
        """Where a solve begins, and its predictions."""
        x, Y = self.point(start), self.problem.Y
        return x, self.predict(x) if x.any() else torch.zeros(Y.shape, dtype=torch.float64, device=Y.device)

    @abstractmethod
    def split(self, x: Array) -> tuple[Tensor, Tensor]:
        """Coefficients and intercept."""

    @abstractmethod
    def first_penalty(self, penalty: float) -> float:
        """Where a path of penalties begins that makes steps from f = 0 easy."""

    @abstractmethod
    def expand(self, x: Array, F: Tensor, mu: float) -> None:
        """Make the model at x, which has the predictions F, with the penalty μ, and a preconditioner for it."""

    @abstractmethod
    def residual(self, penalty: float) -> float:
        """The norm of the gradient for that penalty, relative to that of f = 0, both preconditioned."""

    @abstractmethod
    def squared_norms(self, x: Array, F: Tensor) -> Array:
        """‖f‖² by output."""

    @abstractmethod
    def direction(self, tolerance: float, steps: int) -> Direction:
        """The Newton direction to a relative residual, by so many steps of conjugate gradients at most."""

    def sharpen(self) -> bool:
        """Compute more precisely from now on; False if that is not possible."""
        return False

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What the next expansion reads, besides the point."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Go back to where `snapshot` was taken."""
