"""Kernels of the scaled distance: k(x, c) = profile(‖(x - c) / length_scale‖²)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .base import LOGARITHMIC, Kernel, Parameter, as_tensor, exponent, parameter, scale_inputs
from .distances import shift_of, squared_distances


@dataclass(frozen=True, eq=False, repr=False)
class RadialKernel(Kernel):
    """Base of the kernels that depend on the points through their scaled distance; override `profile`.

    Parameters
    ----------
    length_scale : float or sequence of floats
        One for all features or one for each.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from gyrfalcon.kernels import RadialKernel
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class InverseQuadratic(RadialKernel):
    ...     def profile(self, squared):
    ...         return 1 / (1 + squared)
    >>> InverseQuadratic(length_scale=2.0)([[0.0], [2.0]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    length_scale: Parameter = field(default=1.0, metadata=LOGARITHMIC)

    def __post_init__(self) -> None:
        scale = parameter(self.length_scale, "length_scale", positive=True, dimensions=(0, 1))
        object.__setattr__(self, "length_scale", scale)

    @abstractmethod
    def profile(self, squared: Tensor) -> Tensor:
        """The kernel's value at a squared scaled distance; one at zero."""

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        shift = shift_of(C.detach())
        X, C = X - shift, C - shift
        scale = as_tensor(self.length_scale, X)
        if scale.ndim == 1:
            return self.profile(squared_distances(scale_inputs(X, scale), scale_inputs(C, scale)))
        power = 2.0 ** -exponent(scale.detach())
        return self.profile(squared_distances(X * power, C * power) / (scale * power).square())

    def diagonal(self, X: Tensor) -> Tensor:
        return self.profile(X.new_zeros(len(X)))

    @property
    def positive_definite(self) -> bool:
        return True


def root(squared: Tensor) -> Tensor:
    """The distance, whose derivative at coincident points is taken as zero."""
    positive = squared > 0
    return torch.where(positive, torch.where(positive, squared, 1).sqrt(), 0)
