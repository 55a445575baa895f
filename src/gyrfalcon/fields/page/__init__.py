"""The viewer: a radiance field in a browser."""

from .program import Stage, Viewable, ViewingProgram
from .serve import serve, serve_from

__all__ = ["Stage", "Viewable", "ViewingProgram", "serve", "serve_from"]
