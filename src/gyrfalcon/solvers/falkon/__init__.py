"""Falkon: preconditioned conjugate gradients on the Nyström normal equations."""

from .equations import NormalEquations, sample_rows
from .solver import Falkon

__all__ = ["Falkon", "NormalEquations", "sample_rows"]
