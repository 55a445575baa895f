"""Moments: what one pass over the rows leaves behind, and all that can be asked of it afterwards."""

from .cross import CrossMoments
from .exact import ExactMoments
from .lagged import LaggedMoments, LagSums
from .moments import Moments
from .spectral import SpectralWhitening
from .sums import Sums
from .whitening import Whitening

__all__ = [
    "CrossMoments",
    "ExactMoments",
    "LagSums",
    "LaggedMoments",
    "Moments",
    "SpectralWhitening",
    "Sums",
    "Whitening",
]
