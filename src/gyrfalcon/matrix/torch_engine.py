from __future__ import annotations

from torch import Tensor

from gyrfalcon.arrays import Dense, device_of, to_tensor, torch_dtype
from gyrfalcon.kernels import Kernel

from .engine import Engine


class TorchEngine(Engine):
    """Dense blocks by PyTorch, on whatever device X is: serves every kernel, and is the reference for gradients."""

    name = "torch"

    def __init__(self, kernel: Kernel, X: Dense, C: Dense, budget: int):
        super().__init__(kernel, (len(X), len(C)), torch_dtype(X), device_of(X), budget)
        self.X = X
        self.C = to_tensor(C).detach()

    def block(self, start: int, stop: int) -> Tensor:
        return self.kernel.block(to_tensor(self.X[start:stop]).detach(), self.C)
