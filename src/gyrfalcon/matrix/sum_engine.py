"""Products of a sum of kernels that see the points in different ways: each part has an engine of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gyrfalcon.arrays import Dense
from gyrfalcon.kernels import Sum

from .engine import Description, Engine
from .torch_engine import TorchEngine

Make = Callable[[Dense, Dense, int], Engine]


class SumEngine(TorchEngine):
    """The sum of what the engines of two parts make, such as a kernel of points and one of warped points.

    What needs whole blocks adds those of the parts; derivatives are PyTorch's.
    """

    name = "native"

    def __init__(self, kernel: Sum, X: Dense, C: Dense, budget: int, makes: tuple[Make, Make]):
        super().__init__(kernel, X, C, budget)
        self._parts: list[Engine] = [make(X, C, budget // 2) for make in makes]

    def describe(self) -> Description:
        return self._parts[0].describe()

    def at(self, X: Dense) -> Engine | None:
        other = super().at(X)
        parts = [part for part in (part.at(X) for part in self._parts) if part is not None]
        if not isinstance(other, SumEngine) or len(parts) < len(self._parts):
            return None
        other._parts = parts
        return other

    def block(self, start: int, stop: int) -> Tensor:
        left, right = (part.block(start, stop) for part in self._parts)
        return left.add_(right)

    def wide(self, start: int, stop: int) -> Tensor:
        left, right = (part.wide(start, stop) for part in self._parts)
        return left.add_(right)

    def multiply(self, V: Tensor) -> Tensor:
        left, right = (part.multiply(V) for part in self._parts)
        return left.add_(right)

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        left, right = (part.multiply_transposed(W, dtype) for part in self._parts)
        return left.add_(right)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        """In two passes of fused products, which take less time than one that writes down blocks of each part."""
        product = self.multiply(V)
        return self.multiply_transposed(product if weights is None else weights * product, dtype)
