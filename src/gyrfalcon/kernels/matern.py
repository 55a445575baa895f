from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .native import LOG2_E, NativeForm
from .radial import RadialKernel, root


@dataclass(frozen=True, eq=False, repr=False)
class Laplacian(RadialKernel):
    """The Laplacian kernel, k(x, c) = exp(-‖x - c‖ / σ), with the Euclidean norm.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Laplacian(length_scale=5.0)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.3679]])
    """

    def profile(self, squared: Tensor) -> Tensor:
        return torch.exp(-root(squared))

    @property
    def rough(self) -> bool:
        return True

    def native(self) -> NativeForm:
        return NativeForm("laplacian", LOG2_E**2)


@dataclass(frozen=True, eq=False, repr=False)
class Matern(RadialKernel):
    """The Matérn kernel of smoothness ν: with r = √(2ν) ‖x - c‖ / σ,

    k(x, c) = e⁻ʳ (ν = ½), (1 + r) e⁻ʳ (ν = 3⁄2) or (1 + r + r²/3) e⁻ʳ (ν = 5⁄2).

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.
    nu : 0.5, 1.5 or 2.5

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Matern(length_scale=1.0, nu=1.5)([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    constants: ClassVar[tuple[str, ...]] = ("nu",)
    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}")
        object.__setattr__(self, "nu", float(self.nu))

    def profile(self, squared: Tensor) -> Tensor:
        largest = torch.finfo(squared.dtype).tiny ** -0.5  # beyond, r² would be infinite and its product with zero NaN
        r = (math.sqrt(2 * self.nu) * root(squared)).clamp_max(largest)
        decay = torch.exp(-r)
        if self.nu == 0.5:
            return decay
        return decay * (1 + r) if self.nu == 1.5 else decay * (1 + r + r.square() / 3)

    @property
    def rough(self) -> bool:
        return self.nu < 2

    def native(self) -> NativeForm:
        if self.nu == 0.5:
            return NativeForm("laplacian", LOG2_E**2)
        return NativeForm("matern32", 3.0) if self.nu == 1.5 else NativeForm("matern52", 5.0)
