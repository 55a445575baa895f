from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .native import LOG2_E, NativeForm
from .radial import RadialKernel


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(RadialKernel):
    """The Gaussian kernel, k(x, c) = exp(-‖x - c‖² / 2σ²).

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Gaussian(length_scale=0.5)([[0.0, 0.0]], [[0.0, 0.5]]).round(4)
    array([[0.6065]])
    """

    def profile(self, squared: Tensor) -> Tensor:
        return squared.mul(-0.5).exp_()

    def native(self) -> NativeForm:
        return NativeForm("gaussian", LOG2_E / 2)
