from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .base import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Function(Kernel):
    """A kernel from a Python function of two tensors.

    The torch engine evaluates it block by block; gradients flow if the function is written with torch.

    Parameters
    ----------
    function : callable (X, C) -> tensor of shape (len(X), len(C))
    positive_definite_ : bool
        What the author of the function claims.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> minimum = gf.kernels.Function(lambda X, C: torch.minimum(X, C.T))
    >>> minimum([[1.0], [2.0]])
    array([[1., 1.],
           [1., 2.]])
    """

    constants: ClassVar[tuple[str, ...]] = ("function", "positive_definite_")
    function: Callable[[Tensor, Tensor], Tensor]
    positive_definite_: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {type(self.function).__name__}")

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        values = self.function(X, C)
        if not isinstance(values, Tensor) or values.shape != (len(X), len(C)):
            found = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"function must return a tensor of shape {(len(X), len(C))}, got {found}")
        return values

    def diagonal(self, X: Tensor) -> Tensor:
        return torch.stack([self.block(x[None], x[None])[0, 0] for x in X]) if len(X) else X.new_zeros(0)

    @property
    def positive_definite(self) -> bool:
        return self.positive_definite_

    def to_dict(self) -> dict[str, Any]:
        raise TypeError(
            "a kernel made from a Python function cannot be stored: write it as a class of gyrfalcon.kernels.Kernel"
        )
