"""Teach a machine to see, from a few frames, on line."""

from .page import serve

__all__ = ["serve"]
