"""Kernels, as values: they say what k(x, c) is, and nothing of how products with it are made."""

from .algebra import Mapped, Product, Scaled, Sum
from .base import Kernel, Parameter
from .dot import DotKernel, Linear, Polynomial, Sigmoid
from .fourier import Fourier
from .function import Function
from .gaussian import Gaussian
from .matern import Laplacian, Matern
from .names import as_kernel, from_name
from .native import NativeForm
from .power import Cauchy, ExponentialPower, RationalQuadratic
from .product_laplacian import ProductLaplacian
from .radial import RadialKernel
from .warped import Warped, inputs_of

__all__ = [
    "Cauchy",
    "DotKernel",
    "ExponentialPower",
    "Fourier",
    "Function",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Mapped",
    "Matern",
    "NativeForm",
    "Parameter",
    "Polynomial",
    "Product",
    "ProductLaplacian",
    "RadialKernel",
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "Sum",
    "Warped",
    "as_kernel",
    "from_name",
    "inputs_of",
]
