from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from .base import LOGARITHMIC, Kernel, Parameter, as_number, as_tensor, exponent, parameter, scale_inputs
from .distances import absolute_distances, shift_of
from .native import LOG2_E, NativeForm


@dataclass(frozen=True, eq=False, repr=False)
class ProductLaplacian(Kernel):
    """The product of Laplacian kernels of the features, k(x, c) = exp(-Σⱼ δⱼ / σⱼ), δⱼ = abs(xⱼ - cⱼ).

    With the power q it is exp(-(Σⱼ δⱼ / σⱼ)^q). It depends on the features one by one, as trees do, and often
    suits tables, where rotations of the inputs have no meaning. Its points must be dense.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.
    power : float
        q, in (0, 1]: beyond 1 the kernel would not be positive definite.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.ProductLaplacian(length_scale=7.0)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.3679]])
    """

    constants: ClassVar[tuple[str, ...]] = ("power",)
    length_scale: Parameter = field(default=1.0, metadata=LOGARITHMIC)
    power: float = 1.0

    def __post_init__(self) -> None:
        scale = parameter(self.length_scale, "length_scale", positive=True, dimensions=(0, 1))
        object.__setattr__(self, "length_scale", scale)
        object.__setattr__(self, "power", parameter(self.power, "power", positive=True))
        if float(self.power) > 1:
            raise ValueError(
                f"power must be at most 1, got {self.power!r}: beyond, the kernel is not positive definite"
            )

    def profile(self, distance: Tensor) -> Tensor:
        """The kernel's value at a sum of scaled differences."""
        if self.power == 1:
            return torch.exp(-distance)
        positive = distance > 0
        raised = torch.where(positive, distance, 1).pow(self.power)
        return torch.exp(-torch.where(positive, raised, 0))

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        shift = shift_of(C.detach())
        X, C = X - shift, C - shift
        scale = as_tensor(self.length_scale, X)
        if scale.ndim == 1:
            return self.profile(absolute_distances(scale_inputs(X, scale), scale_inputs(C, scale)))
        unit = 2.0 ** -exponent(scale.detach())
        return self.profile(absolute_distances(X * unit, C * unit) / (scale * unit))

    def diagonal(self, X: Tensor) -> Tensor:
        return X.new_ones(len(X))

    @property
    def positive_definite(self) -> bool:
        return True

    @property
    def rough(self) -> bool:
        return True

    def native(self) -> NativeForm:
        if self.power == 1:
            return NativeForm("product_laplacian", LOG2_E)
        return NativeForm("product_laplacian_power", constants=(as_number(self.power),))
