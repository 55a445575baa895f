"""A kernel after a monotone map of single features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, Dense, to_tensor

from .base import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Warped(Kernel):
    """A kernel after a monotone map of some features, k(φ(x), φ(c)).

    Each φⱼ is piecewise linear between knots, and constant beyond the first and the last of them. It suits features
    with heavy tails, whose spread says little about where most rows are. Points must be dense.

    Parameters
    ----------
    kernel : Kernel
    columns : sequence of int
        The features that are mapped, in increasing order; the others stay as they are.
    knots, values : arrays of shape (columns, q), q ≥ 2
        φⱼ at its knots, both in increasing order along each row. A knot may be repeated with its value, where a
        feature needs fewer.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> kernel = gf.kernels.Warped(gf.kernels.Gaussian(1.0), [0], [[0.0, 1.0, 1000.0]], [[0.0, 1.0, 2.0]])
    >>> kernel([[1.0]], [[1000.0], [1e9]]).round(4)
    array([[0.6065, 0.6065]])
    """

    constants: ClassVar[tuple[str, ...]] = ("columns", "knots", "values")
    kernel: Kernel
    columns: tuple[int, ...]
    knots: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel, got {type(self.kernel).__name__}")
        columns = np.asarray(self.columns)
        numbers = columns.ndim == 1 and len(columns) > 0 and columns.dtype.kind in "iu"
        if not numbers or columns[0] < 0 or (np.diff(columns) < 1).any():
            raise ValueError(f"columns must be numbers of features in increasing order, got {self.columns!r}")
        for name in ("knots", "values"):
            table = np.asarray(getattr(self, name), dtype=np.float64)
            if table.ndim != 2 or len(table) != len(columns) or table.shape[1] < 2:
                shape = (len(columns), "2 or more")
                raise ValueError(f"{name} must have shape {shape}, one row per column, got {table.shape}")
            if not np.isfinite(table).all() or (np.diff(table) < 0).any():
                raise ValueError(f"{name} must be finite and in increasing order along each row")
            object.__setattr__(self, name, tuple(map(tuple, table.tolist())))
        if np.shape(self.knots) != np.shape(self.values):
            raise ValueError(f"knots has {len(self.knots[0])} columns but values has {len(self.values[0])}")
        object.__setattr__(self, "columns", tuple(columns.tolist()))

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        return self.kernel.block(self.inputs(X), self.inputs(C))

    def diagonal(self, X: Tensor) -> Tensor:
        return self.kernel.diagonal(self.inputs(X))

    @property
    def positive_definite(self) -> bool:
        return self.kernel.positive_definite

    @property
    def map(self) -> tuple[Any, ...]:
        """φ, to be held against that of another kernel."""
        return self.columns, self.knots, self.values

    def inputs(self, X: Tensor) -> Tensor:
        """φ(X), differentiable in X."""
        self._check(X.shape[1])
        knots, values = (torch.from_numpy(table).to(X) for table in self._arrays)
        warped = X[:, list(self.columns)].T.contiguous()
        at = (torch.searchsorted(knots, warped.detach(), right=True) - 1).clamp_(0, knots.shape[1] - 2)
        left, low = knots.gather(1, at), values.gather(1, at)
        width, rise = knots.gather(1, at + 1) - left, values.gather(1, at + 1) - low
        share = torch.where(width > 0, (warped - left) / torch.where(width > 0, width, 1), 0).clamp(0, 1)
        found = X.clone()
        found[:, list(self.columns)] = (low + share * rise).T
        return found

    def warp(self, X: Dense) -> Dense:
        """φ(X), of the kind of X and without a record of it.

        >>> import numpy as np, gyrfalcon as gf
        >>> kernel = gf.kernels.Warped(gf.kernels.Gaussian(1.0), [1], [[0.0, 10.0]], [[0.0, 1.0]])
        >>> kernel.warp(np.array([[7.0, 5.0], [7.0, 50.0]]))
        array([[7. , 0.5],
               [7. , 1. ]])
        """
        if isinstance(X, Tensor):
            with torch.no_grad():
                return self.inputs(X.detach())
        self._check(X.shape[1])
        found = X.copy()
        for j, knots, values in zip(self.columns, *self._arrays, strict=True):
            found[:, j] = np.interp(X[:, j], knots, values)
        return found

    def slopes(self, X: Dense) -> Tensor:
        """φⱼ'(xⱼ) for every entry of X: one for features that are not mapped, zero beyond the knots."""
        with torch.enable_grad():
            points = to_tensor(X).detach().requires_grad_()
            (found,) = torch.autograd.grad(self.inputs(points).sum(), points)
        return found

    def __repr__(self) -> str:
        return f"Warped({self.kernel!r}, {len(self.columns)} features)"

    def _check(self, features: int) -> None:
        if features <= self.columns[-1]:
            raise ValueError(f"columns names feature {self.columns[-1]} but the points have {features} features")

    @cached_property
    def _arrays(self) -> tuple[Array, Array]:
        """Knots and values."""
        return np.array(self.knots).reshape(len(self.columns), -1), np.array(self.values).reshape(len(self.columns), -1)


def inputs_of(kernel: Kernel, X: Any) -> Any:
    """The points as the part of a kernel sees them that has length scales: warped, if the kernel warps them.

    >>> import numpy as np, gyrfalcon as gf
    >>> kernel = gf.kernels.Warped(gf.kernels.Gaussian(1.0), [0], [[0.0, 10.0]], [[0.0, 1.0]])
    >>> gf.kernels.inputs_of(kernel, np.array([[5.0]])), gf.kernels.inputs_of(kernel.kernel, np.array([[5.0]]))
    (array([[0.5]]), array([[5.]]))
    """
    return kernel.warp(X) if isinstance(kernel, Warped) else X
