from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, Dense, as_numpy, device_of, in_double, to_tensor, torch_dtype
from gyrfalcon.kernels import Kernel

from . import autograd
from .autograd import TAPE_BLOCKS, Weights
from .engine import BLOCK_BYTES, Engine


class TorchEngine(Engine):
    """Dense blocks by PyTorch, on whatever device X is: serves every kernel, and is the reference for gradients."""

    name = "torch"

    def __init__(self, kernel: Kernel, X: Dense, C: Dense, budget: int):
        super().__init__(kernel, (len(X), len(C)), torch_dtype(X), device_of(X), budget)
        self.X = X
        self.C: Dense = to_tensor(C).detach()

    def at(self, X: Dense) -> Engine | None:
        if isinstance(X, Tensor | np.ndarray) and torch_dtype(X) == self.dtype and device_of(X) == self.device:
            other = copy.copy(self)
            other.X, other.shape = X, (len(X), self.shape[1])
            return other
        return None

    def block(self, start: int, stop: int) -> Tensor:
        return self.kernel.block(to_tensor(self.X[start:stop]).detach(), to_tensor(self.C))

    def wide(self, start: int, stop: int) -> Tensor:
        if self.dtype == torch.float64:
            return self.block(start, stop)
        return type(self)(self.kernel, in_double(self.X[start:stop]), in_double(self.C), self.budget).block(
            0, stop - start
        )

    def _own_diagonal(self) -> Array:
        return as_numpy(self.kernel.diagonal(to_tensor(self.X).detach()).double())

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        step = self.block_rows(min(BLOCK_BYTES, self.budget // TAPE_BLOCKS))
        return autograd.sums(self.kernel, self.X[rows], self.C, autograd.dense_block, weights, wanted, step)
