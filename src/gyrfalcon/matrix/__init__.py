"""The kernel matrix that is never stored, and the engines that make its products."""

from .derivative import Gradients
from .engine import Engine
from .kernel_matrix import KernelMatrix
from .plan import Plan
from .transposed import Transposed

__all__ = ["Engine", "Gradients", "KernelMatrix", "Plan", "Transposed"]
