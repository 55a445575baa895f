"""Problems of a warped kernel, posed once and for all in the features as it maps them."""

from __future__ import annotations

from dataclasses import replace

from gyrfalcon.kernels import Kernel, Warped
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares


def unwarped(problem: LeastSquares) -> LeastSquares:
    """The same problem with the inner kernel on mapped points, so that nothing is mapped again while it is tuned.

    Every row must be a center.
    """
    kernel = problem.K.kernel
    if not isinstance(kernel, Warped):
        return problem
    budget = problem.K.memory_budget
    K = KernelMatrix(kernel.kernel, kernel.warp(problem.K.centers), memory_budget=budget, cache=False)
    return replace(problem, K=K)


def warped_as(problem: LeastSquares, inner: Kernel) -> Kernel:
    """What was found for `unwarped(problem)`, as a kernel of the points of the problem."""
    kernel = problem.K.kernel
    return replace(kernel, kernel=inner) if isinstance(kernel, Warped) else inner
