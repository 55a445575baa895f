"""EigenPro: preconditioned stochastic gradient descent in the space of the kernel."""

from .solver import EigenPro
from .stream import eigenpro_stream

__all__ = ["EigenPro", "eigenpro_stream"]
