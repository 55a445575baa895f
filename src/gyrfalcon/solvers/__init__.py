"""Solvers: each takes a problem posed on a KernelMatrix and returns a Solution, coefficients and what happened."""

from .automatic import choose
from .direct import direct, exact
from .falkon import falkon
from .newton import newton
from .problem import LeastSquares
from .risk import Risk
from .solution import Keep, Record, Snapshot, Solution, Step

__all__ = [
    "Keep",
    "LeastSquares",
    "Record",
    "Risk",
    "Snapshot",
    "Solution",
    "Step",
    "choose",
    "direct",
    "exact",
    "falkon",
    "newton",
]
