"""Length scales from how much the fitted function changes with each feature (diagonal recursive feature machines)."""

from __future__ import annotations

import numpy as np
import torch

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.kernels import Kernel
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.threads import one_thread_each

from .full import coefficients
from .parameters import length_scales
from .warping import unwarped, warped_as

GRADIENT_ROWS = 300  # at which gradients are taken, of the first rows
GRADIENT_OUTPUTS = 4  # random combinations of the outputs that stand for all of them, if there are more
LEAST_RELEVANCE = 1e-3  # of the largest; features of less keep this, so that a later search can bring them back


@one_thread_each
def reweighted(problem: LeastSquares) -> Kernel:
    """The kernel with length scales inversely proportional to the mean squared gradient's root, feature by feature.

    Gradients are taken in units of the present length scales, and the new ones leave the mean of the distances along
    single features, in those units, what it was. Every row must be a center.
    """
    given, problem = problem, unwarped(problem)  # gradients are in the features as they are mapped
    kernel = problem.K.kernel
    scales = {name: value for name, value in length_scales(kernel).items() if value.ndim == 1}
    new = {}
    for name, scale in scales.items():
        relevance = np.sqrt(_mean_squared_slopes(problem, scale))
        top = float(relevance.max(initial=0.0))
        if not np.isfinite(top) or top <= 0:
            raise FloatingPointError("the fitted function does not change with its inputs")
        relevance = np.maximum(relevance / top, LEAST_RELEVANCE)
        new[name] = (scale * relevance.mean() / relevance).tolist()
    return warped_as(given, kernel.with_parameters(new))


def _mean_squared_slopes(problem: LeastSquares, unit: Array) -> Array:
    """Σₖ (unitⱼ ∂fₖ/∂xⱼ)², averaged over some rows, for each feature j."""
    alpha = coefficients(problem)
    K = problem.K.with_centers(index=slice(0, GRADIENT_ROWS))
    if alpha.shape[1] > GRADIENT_OUTPUTS:
        random = np.random.default_rng(0).normal(size=(alpha.shape[1], GRADIENT_OUTPUTS))
        alpha = alpha @ torch.from_numpy(random).to(alpha)
    ones = torch.ones(K.shape[1], 1, dtype=alpha.dtype, device=alpha.device)
    total = np.zeros(K.n_features)
    for column in alpha.T.contiguous():
        slopes = K.gradients(column[:, None], ones, wanted=("C",)).C
        total += np.square(as_numpy(slopes, np.float64) * unit).mean(0)
    return total
