"""The teaching page: show objects to a camera, mark them, and see them found in the next frames."""

from .lesson import Lesson
from .program import TeachingProgram
from .protocols import Found, Frames, Mark, Teacher
from .serve import make_segmenter, serve_from
from .sources import Clip, Folder, open_source

__all__ = [
    "Clip",
    "Folder",
    "Found",
    "Frames",
    "Lesson",
    "Mark",
    "Teacher",
    "TeachingProgram",
    "make_segmenter",
    "open_source",
    "serve_from",
]
