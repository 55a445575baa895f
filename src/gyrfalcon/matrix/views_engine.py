"""Products of kernels whose parts see the points in different ways: as they are, or as some map makes them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Dense, in_double, to_tensor
from gyrfalcon.kernels import Kernel, Product, Scaled, Sum, Warped

from . import native_engine
from .engine import Description, Engine
from .native_engine import NativeEngine, Program
from .torch_engine import TorchEngine


def serves(kernel: Kernel) -> bool:
    """Whether the compiled core knows every part of the kernel once its points are warped."""
    if type(kernel) in (Sum, Product, Scaled):
        return all(serves(child) for _, child in kernel.children())
    return native_engine.serves(kernel.kernel if type(kernel) is Warped else kernel)


class ViewsEngine(TorchEngine):
    """What each map makes of the points stands beside what the others do, and each part of the kernel reads columns of
    its own, so that an entry is made in one pass of the compiled core. Derivatives are PyTorch's.
    """

    name = "native"
    temporaries = 1

    def __init__(self, kernel: Kernel, X: Dense, C: Dense, budget: int, threads: int | None = None):
        super().__init__(kernel, X, C, budget)
        self._views = list({None if part is None else part.map: part for part in _views_of(kernel)}.values())
        self._given, self._threads = C, threads
        self._double: Engine | None = None

    @cached_property
    def _core(self) -> Engine:
        """Made for the first product: a matrix that is only asked what it costs maps no points."""
        points = self._side_by_side(self.X)
        centers = points if self._given is self.X else self._side_by_side(self._given)
        program = Program(self.kernel, to_tensor(centers), views=self._views)
        return NativeEngine(self.kernel, points, centers, self.budget, self._threads, program)

    def _side_by_side(self, X: Dense) -> Dense:
        views = (X if view is None else view.warp(X) for view in self._views)
        if isinstance(X, Tensor):
            return torch.cat([to_tensor(view) for view in views], 1)
        return np.concatenate(list(views), 1)

    def describe(self) -> Description:
        return self._core.describe()

    def at(self, X: Dense) -> Engine | None:
        other = super().at(X)
        core = None if other is None else self._core.at(self._side_by_side(X))
        if not isinstance(other, ViewsEngine) or core is None:
            return None
        other._core = core
        return other

    def block(self, start: int, stop: int) -> Tensor:
        return self._core.block(start, stop)

    def wide(self, start: int, stop: int) -> Tensor:
        if self.dtype == torch.float64:
            return self.block(start, stop)
        if self._double is None:
            self._double = ViewsEngine(self.kernel, in_double(self.X[:0]), in_double(self.C), self.budget)
        rows = self._double.at(in_double(self.X[start:stop]))
        assert rows is not None
        return rows.block(0, stop - start)

    def multiply(self, V: Tensor) -> Tensor:
        return self._core.multiply(V)

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        return self._core.multiply_transposed(W, dtype)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._core.multiply_gram(V, weights, dtype)


def _views_of(kernel: Kernel) -> Iterator[Warped | None]:
    """The warped parts of a kernel, and None for those that see the points as they are."""
    if type(kernel) is Warped or native_engine.serves(kernel):
        yield kernel if isinstance(kernel, Warped) else None
        return
    for _, child in kernel.children():
        yield from _views_of(child)
