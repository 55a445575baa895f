"""Newton's method for any smooth convex loss, with Falkon's preconditioner inside."""

from .solver import Newton

__all__ = ["Newton"]
