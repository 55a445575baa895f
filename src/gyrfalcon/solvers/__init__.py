"""Solvers: each takes a problem posed on a KernelMatrix and returns a Solution, coefficients and what happened."""

from .direct import direct, exact
from .falkon import falkon
from .problem import LeastSquares
from .solution import Record, Solution

__all__ = ["LeastSquares", "Record", "Solution", "direct", "exact", "falkon"]
