"""When float32 entries of K are not enough: large coefficients make their rounding visible in predictions."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy

from .problem import LeastSquares
from .solution import Solution

ROUNDING_SHARE = 0.1  # of a model's error that float32 entries of K may cause: half a percent once squares are added


def rounding_shows(beta: Array, values: Array, scale: float) -> bool:
    """Whether rounding of float32 entries of K, ε‖β‖ in predictions, is a visible part of the error they have."""
    noise = torch.finfo(torch.float32).eps * scale * np.linalg.norm(beta, axis=0)
    return bool((noise > ROUNDING_SHARE * np.sqrt(np.maximum(values, 0.0))).any())


def shows_in(solution: Solution) -> bool:
    """Whether predictions with float32 entries of K would show their rounding."""
    return rounding_shows(
        as_numpy(solution.coefficients, np.float64), np.array(solution.record.objective or [0.0]), 1.0
    )


def needs_float64(problem: LeastSquares, beta: Tensor) -> bool:
    """Whether K is float32 and residuals at these coefficients would be mostly rounding; one pass over X."""
    K = problem.K
    if K.dtype != torch.float32:
        return False
    left = dataclasses.replace(problem, Y=problem.Y - K @ beta.detach().to(K.device, K.dtype))
    return rounding_shows(
        as_numpy(beta.detach().double()), left.value_at_zero, float(K.prior_diagonal().max(initial=0.0))
    )
