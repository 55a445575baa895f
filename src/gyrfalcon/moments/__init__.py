"""Moments: what one pass over the rows leaves behind, and all that can be asked of it afterwards."""

from .cross import CrossMoments
from .moments import Moments
from .sums import Sums
from .whitening import Whitening

__all__ = ["CrossMoments", "Moments", "Sums", "Whitening"]
