from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Parameter, as_number, as_tensor, parameter
from .dot import DotKernel
from .native import NativeForm


@dataclass(frozen=True, eq=False, repr=False)
class Fourier(DotKernel):
    """A wave in place of a center, φ(x, w) = a·(cos⟨x, w⟩ + sin⟨x, w⟩): the columns of K are features of the points.

    With frequencies w from a symmetric distribution, E[φ(x, w) φ(y, w)] = a²·E[cos⟨x - y, w⟩], which is a
    shift-invariant kernel; w and -w together give what a cosine and a sine give. It is no kernel itself: as with other
    explicit features, ‖f‖² is a sum of squares of coefficients, and `KernelMatrix.between_centers` is the identity.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, which divides both x and w.
    amplitude : float
        a; one over the root of the number of frequencies makes K Kᵀ an estimate of the kernel.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> frequencies = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Z = gf.KernelMatrix(gf.kernels.Fourier(amplitude=1000**-0.5), np.array([[0.0, 0.0], [1.0, 0.0]]), frequencies)
    >>> bool(abs((Z @ Z.to_dense().T)[0, 1] - np.exp(-0.5)) < 0.1)  # near the Gaussian kernel of the two points
    True
    """

    amplitude: Parameter = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "amplitude", parameter(self.amplitude, "amplitude", positive=True))

    def profile(self, product: Tensor) -> Tensor:
        return (math.sqrt(2) * as_tensor(self.amplitude, product)) * torch.cos(product - math.pi / 4)

    def native(self) -> NativeForm:
        return NativeForm("fourier", 1 / math.tau, (math.sqrt(2) * as_number(self.amplitude),))

    @property
    def positive_definite(self) -> bool:
        return False

    @property
    def explicit(self) -> bool:
        return True
