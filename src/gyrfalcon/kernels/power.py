"""Radial kernels with a shape parameter: exponential of a power, rational quadratic and its special case, Cauchy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from .base import LOGARITHMIC, Parameter, as_number, as_tensor, parameter
from .native import NativeForm
from .radial import RadialKernel


@dataclass(frozen=True, eq=False, repr=False)
class ExponentialPower(RadialKernel):
    """The exponential of a power of the distance, k(x, c) = exp(-(‖x - c‖ / σ)ᵖ).

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.
    power : float
        p, in (0, 2]: beyond 2 the kernel would not be positive definite.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.ExponentialPower(length_scale=2.0, power=0.5)([[0.0]], [[2.0]]).round(4)
    array([[0.3679]])
    """

    constants: ClassVar[tuple[str, ...]] = ("power",)
    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "power", parameter(self.power, "power", positive=True))
        if float(self.power) > 2:
            raise ValueError(
                f"power must be at most 2, got {self.power!r}: beyond, the kernel is not positive definite"
            )

    def profile(self, squared: Tensor) -> Tensor:
        positive = squared > 0
        raised = torch.where(positive, squared, 1).pow(self.power / 2)
        return torch.exp(-torch.where(positive, raised, 0))

    def native(self) -> NativeForm:
        return NativeForm("exponential_power", constants=(as_number(self.power) / 2,))


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(RadialKernel):
    """The rational quadratic kernel, k(x, c) = (1 + ‖x - c‖² / 2ασ²)^-α.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.
    alpha : float
        α; the kernel tends to the Gaussian as it grows.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.RationalQuadratic(length_scale=1.0, alpha=2.0)([[0.0]], [[2.0]])
    array([[0.25]])
    """

    alpha: Parameter = field(default=1.0, metadata=LOGARITHMIC)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", parameter(self.alpha, "alpha", positive=True))

    def profile(self, squared: Tensor) -> Tensor:
        alpha = as_tensor(self.alpha, squared)
        return torch.exp(-alpha * torch.log1p(squared / (2 * alpha)))

    def native(self) -> NativeForm:
        alpha = as_number(self.alpha)
        return NativeForm("rational_quadratic", 1 / (2 * alpha), (alpha,))


@dataclass(frozen=True, eq=False, repr=False)
class Cauchy(RadialKernel):
    """The Cauchy kernel, k(x, c) = 1 / (1 + ‖x - c‖² / σ²).

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Cauchy(length_scale=1.0)([[0.0]], [[2.0]])
    array([[0.2]])
    """

    def profile(self, squared: Tensor) -> Tensor:
        return 1 / (1 + squared)

    def native(self) -> NativeForm:
        return NativeForm("cauchy")
