from .cases import DTYPES, ENGINES, KERNELS, RADIAL, TOLERANCE, Route
from .checks import Comparison, as_array, relative_error
from .kernels import dense, distances
from .sums import product

__all__ = [
    "DTYPES",
    "ENGINES",
    "KERNELS",
    "RADIAL",
    "TOLERANCE",
    "Comparison",
    "Route",
    "as_array",
    "dense",
    "distances",
    "product",
    "relative_error",
]
