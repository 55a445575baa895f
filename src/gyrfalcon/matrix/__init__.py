"""The kernel matrix that is never stored, and the engines that make its products."""

from .engine import Engine
from .kernel_matrix import Gradients, KernelMatrix, Transposed
from .plan import Plan

__all__ = ["Engine", "Gradients", "KernelMatrix", "Plan", "Transposed"]
