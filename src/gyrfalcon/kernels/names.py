"""Kernels by the names that users of scikit-learn know."""

from __future__ import annotations

import math
import numbers
from typing import Any

from .base import Kernel
from .dot import Linear, Polynomial, Sigmoid
from .gaussian import Gaussian
from .matern import Laplacian, Matern
from .power import Cauchy, ExponentialPower, RationalQuadratic
from .product_laplacian import ProductLaplacian

NAMES: dict[str, type[Kernel]] = {
    "cauchy": Cauchy,
    "exponential_power": ExponentialPower,
    "gaussian": Gaussian,
    "laplace_l1": ProductLaplacian,
    "laplacian": Laplacian,
    "linear": Linear,
    "matern": Matern,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "product_laplacian": ProductLaplacian,
    "rational_quadratic": RationalQuadratic,
    "rbf": Gaussian,
    "sigmoid": Sigmoid,
}


def from_name(name: str, *, gamma: float | None = None, coef0: float | None = None, **parameters: Any) -> Kernel:
    """A kernel from its name, with this library's parameters or scikit-learn's `gamma`, `degree` and `coef0`.

    `gamma` becomes the length scale that gives the same kernel: exp(-γ‖x - c‖²) for the Gaussian, exp(-γ‖x - c‖)
    for the Laplacian (Euclidean here; scikit-learn's, which sums absolute differences, is "product_laplacian"),
    γ⟨x, c⟩ for the others.

    Parameters
    ----------
    name : str
        "rbf" or "gaussian", "laplacian", "product_laplacian" or "laplace_l1", "matern", "exponential_power",
        "rational_quadratic", "cauchy", "linear", "poly" or "polynomial", "sigmoid".
    gamma, coef0 : float, optional
    **parameters
        Passed to the kernel.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.from_name("rbf", gamma=0.5)
    Gaussian(length_scale=1)
    >>> gf.kernels.from_name("poly", degree=2, coef0=0.0)
    Polynomial(length_scale=1, degree=2, offset=0)
    """
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"kernel must be one of {sorted(NAMES)}, got {name!r}")
    kernel = NAMES[name]
    if gamma is not None:
        if "length_scale" in parameters:
            raise ValueError("give either gamma or length_scale, not both")
        if not isinstance(gamma, numbers.Real) or not 0 < gamma < math.inf:
            raise ValueError(f"gamma must be a positive number, got {gamma!r}")
        if kernel not in (Gaussian, Laplacian, Linear, Polynomial, ProductLaplacian, Sigmoid):
            raise ValueError(f"gamma is not a parameter of the {name} kernel: give length_scale")
        half = 2.0 if kernel is Gaussian else 1.0
        of_distance = kernel in (Laplacian, ProductLaplacian)
        parameters["length_scale"] = 1 / gamma if of_distance else math.sqrt(1 / (half * gamma))
    if coef0 is not None:
        if kernel not in (Polynomial, Sigmoid):
            raise ValueError(f"coef0 is not a parameter of the {name} kernel")
        parameters["offset"] = coef0
    try:
        return kernel(**parameters)
    except TypeError as error:
        raise TypeError(f"{name} kernel: {error}") from error


def as_kernel(kernel: Kernel | str) -> Kernel:
    """The kernel itself, or the one of that name with its default parameters.

    Examples
    --------
    >>> from gyrfalcon.kernels import as_kernel
    >>> as_kernel("laplacian")
    Laplacian(length_scale=1)
    """
    if isinstance(kernel, str):
        return from_name(kernel)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a kernel or a name, got {type(kernel).__name__}")
    return kernel
