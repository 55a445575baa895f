"""Stochastic gradients for any convex loss."""

from .solver import SGD

__all__ = ["SGD"]
