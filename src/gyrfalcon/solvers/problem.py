"""The weighted, penalized least-squares problem, and what every problem posed on a KernelMatrix shares."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix

BLOCK = 1 << 18  # rows of targets converted to float64 together


class Problem:
    """Points, targets, penalty and weights: what every penalized problem has, its checks and its clock."""

    K: KernelMatrix
    Y: Tensor
    penalty: float
    weights: Tensor | None
    intercept: bool
    seconds: dict[str, float]

    def __post_init__(self) -> None:
        if self.Y.ndim != 2 or len(self.Y) != self.K.shape[0]:
            raise ValueError(f"Y must have {self.K.shape[0]} rows and two dimensions, got shape {tuple(self.Y.shape)}")
        if self.Y.dtype not in self._target_types():
            raise TypeError(
                f"Y must be a tensor of {self.K.dtype}, as K is, got a {type(self.Y).__name__} of {self.Y.dtype}: "
                "convert it with torch.as_tensor(Y, dtype=K.dtype)"
            )
        if not bool(self.Y.sum().isfinite()) and not bool(self.Y.isfinite().all()):  # only the sum costs little
            raise ValueError("Y must be finite, and holds NaN or infinity: drop those rows, or fill them in")
        if not self.penalty >= 0 or not np.isfinite(self.penalty):
            raise ValueError(f"penalty must be a finite number, zero or more, got {self.penalty!r}")
        check_weights(self.weights, len(self.Y))
        self.K.expect(self.Y.shape[1])

    def _target_types(self) -> tuple[torch.dtype, ...]:
        """What Y may hold."""
        return (self.K.dtype,)

    @property
    def total_weight(self) -> float:
        return float(self.K.shape[0]) if self.weights is None else float(self.weights.sum(dtype=torch.float64))

    def check_start(self, start: Tensor) -> None:
        """Whether these can be coefficients."""
        shape = self.K.shape[1], self.Y.shape[1]
        if tuple(start.shape) != shape:
            raise ValueError(
                f"start must have shape {shape}, a row for each center and a column for each output, "
                f"got {tuple(start.shape)}"
            )

    def pass_first_product(self) -> None:
        """Bring K to where it is in the middle of a solve: it may be kept in memory from its second product on, and one
        that is kept gives other last digits than one that is made in passing.
        """
        if self.K.cached:
            self.K.rmv(self.Y[:, :1])

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


@dataclass
class LeastSquares(Problem):
    """min over f, b of Σᵢ wᵢ (f(xᵢ) + b - yᵢ)² / Σᵢ wᵢ + penalty ‖f‖², f = Σⱼ βⱼ k(·, cⱼ).

    With G = KᵀWK / Σw, β solves (G + penalty·Kmm) β = KᵀWY / Σw. An intercept is eliminated: with u = KᵀW1 / Σw the
    matrix becomes G - uuᵀ + penalty·Kmm, Y loses its mean, and b = mean(y) - uᵀβ.

    Parameters
    ----------
    K : KernelMatrix of shape (n, m)
    Y : tensor of shape (n, t)
    penalty : float
    weights : tensor of shape (n, 1), optional
    intercept : bool
    floor : float or array of shape (t,)
        What the objective holds besides, which no f can change: the spread inside groups of rows that were merged.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500)[:, None]
    >>> Y = torch.sin(X)
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> solution = gf.solvers.solve(gf.solvers.LeastSquares(K, Y, penalty=1e-6), "falkon")
    >>> bool((K @ solution.coefficients.float() - Y).abs().max() < 0.01)
    True
    """

    K: KernelMatrix
    Y: Tensor
    penalty: float
    weights: Tensor | None = None
    intercept: bool = False
    floor: Any = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def widened(self) -> LeastSquares | None:
        """The same problem with K evaluated in float64, or None if the points would not fit the budget in float64."""
        if self.K.double_bytes > self.K.memory_budget:
            return None
        weights = None if self.weights is None else self.weights.double()
        wide: LeastSquares = dataclasses.replace(self, K=self.K.widened(), Y=self.Y.double(), weights=weights)
        return wide

    def at(self, *, kernel: Kernel | None = None, penalty: float | None = None, C: Any = None) -> LeastSquares:
        """The same problem with another kernel, penalty or centers."""
        K = self.K if kernel is None else self.K.with_kernel(kernel)
        K = K if C is None else K.with_centers(C)
        penalty = self.penalty if penalty is None else penalty
        return LeastSquares(K, self.Y, penalty, self.weights, self.intercept, self.floor)

    @cached_property
    def mean(self) -> Tensor:
        """The weighted mean of Y, which an intercept takes away; zero without one."""
        if not self.intercept:
            return torch.zeros(self.Y.shape[1], dtype=torch.float64, device=self.Y.device)
        return self.average(lambda Y: Y)

    def average(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The weighted mean of a function of rows of Y, in float64."""
        total = torch.zeros(self.Y.shape[1], dtype=torch.float64, device=self.Y.device)
        for rows in self._blocks():
            values = function(self.Y[rows].double())
            total += (values if self.weights is None else self.weights[rows].double() * values).sum(0)
        return total / self.total_weight

    def _blocks(self) -> Iterator[slice]:
        """Rows that are looked at together, so that no copy of all targets is made."""
        return (slice(start, start + BLOCK) for start in range(0, len(self.Y), BLOCK))

    def targets(self, rows: slice = slice(None)) -> Tensor:
        """Y - mean in float64, with a column of ones if there is an intercept."""
        Y = self.Y[rows].double() - self.mean
        return torch.cat([Y, torch.ones_like(Y[:, :1])], 1) if self.intercept else Y

    @cached_property
    def sides(self) -> tuple[Array, Array]:
        """KᵀW(Y - mean) / Σw, and u = KᵀW1 / Σw as a column, or no column without an intercept; float64."""
        with self.timed("right_side"):
            W = self.Y.new_empty(len(self.Y), self.Y.shape[1] + int(self.intercept))
            for rows in self._blocks():
                W[rows] = self.targets(rows)
                if self.weights is not None:
                    W[rows] *= self.weights[rows]
            sides = as_numpy(self.K.rmv(W, dtype=torch.float64))
        return tuple(np.split(sides / self.total_weight, [self.Y.shape[1]], axis=1))  # type: ignore[return-value]

    def finish(self, beta: Array, u: Array) -> tuple[Tensor, Tensor]:
        """The coefficients and the best intercept for them."""
        intercept = as_numpy(self.mean) - (u.T @ beta).sum(0)
        return torch.from_numpy(np.ascontiguousarray(beta)), torch.from_numpy(intercept)

    @cached_property
    def value_at_zero(self) -> Array:
        """The objective of f = 0 with the best intercept, by output."""
        return np.asarray(as_numpy(self.average(lambda Y: (Y - self.mean).square())) + self.floor)


def check_weights(weights: Tensor | None, rows: int) -> None:
    """Refuse weights that are not one number for each row, zero or more, and not all zero."""
    if weights is None:
        return
    if tuple(weights.shape) != (rows, 1):
        raise ValueError(
            f"weights must have shape {(rows, 1)}, got {tuple(weights.shape)}: give one for each row, as a column"
        )
    if not 0 < float(weights.sum(dtype=torch.float64)) < np.inf or bool(weights.min() < 0):
        raise ValueError(
            "weights must be finite, zero or more, and not all zero: give zero to rows that are not to count, and "
            "others more"
        )
