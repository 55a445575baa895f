"""The viewer: a radiance field in a browser."""

from .program import Studio, Viewable, ViewingProgram
from .serve import serve_from

__all__ = ["Studio", "Viewable", "ViewingProgram", "serve_from"]
