"""Newton's method for smooth convex losses, and for losses with kinks, with Falkon's preconditioner inside."""

from .smoothed import SmoothedNewton
from .solver import Newton

__all__ = ["Newton", "SmoothedNewton"]
