"""Exact leaves: kernel ridge regression on parts of the rows, blended into one smooth function."""

from .fit import fit_partition
from .function import LocalFunction
from .settings import Partition
from .tree import Tree

__all__ = ["LocalFunction", "Partition", "Tree", "fit_partition"]
