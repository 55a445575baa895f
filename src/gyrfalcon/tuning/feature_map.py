"""A linear map of the inputs, learned from the gradients of the fitted function (recursive feature machines)."""

from __future__ import annotations

import numpy as np

from gyrfalcon.arrays import AnyPoints, Array, as_numpy
from gyrfalcon.kernels import Kernel, Mapped, RadialKernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import LeastSquares, solve

from .parameters import as_array

BLOCK = 32 << 20  # bytes of a block of K
FLOOR = 1e-10  # of the largest eigenvalue: directions below are dropped
POWER = 0.25  # of the outer product that the map is: a half would soon leave but a few directions
ROWS = 5000  # at which gradients are taken


def gradient_outer_product(
    kernel: Kernel, X: AnyPoints, C: AnyPoints, coefficients: Array, weights: Array | None = None
) -> Array:
    """Σᵢ wᵢ Σₖ ∇fₖ(xᵢ) ∇fₖ(xᵢ)ᵀ / Σᵢ wᵢ, of shape (d, d), for fₖ = Σⱼ coefficientsⱼₖ k(·, cⱼ).

    Its eigenvectors are the directions in which f changes, its diagonal how much each feature matters.

    Parameters
    ----------
    kernel : Kernel
    X, C : arrays or tensors of shape (n, d) and (m, d)
    coefficients : array of shape (m, t)
    weights : array of shape (n,), optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> gf.tuning.gradient_outer_product(gf.kernels.Linear(), X, X, np.array([[0.0], [2.0]]))
    array([[4., 0.],
           [0., 0.]])
    """
    return _outer_product(KernelMatrix(kernel, X, C), np.asarray(coefficients, dtype=np.float64), weights)


def _outer_product(K: KernelMatrix, coefficients: Array, weights: Array | None) -> Array:
    beta = coefficients.reshape(len(coefficients), -1)
    n, d = K.shape[0], K.n_features
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    total = np.zeros((d, d))
    step = max(1, BLOCK // (8 * max(K.shape[1], d * beta.shape[1])))
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        slopes = as_numpy(K.slopes(beta, rows), np.float64)
        slopes = (slopes * np.sqrt(w[rows])[:, None, None]).reshape(-1, d)
        total += slopes.T @ slopes
    return np.asarray(total / w.sum())


def improve(problem: LeastSquares, scales: Array) -> Mapped:
    """The kernel after a map learned from the solution of a problem on a kernel of the distance, mapped or not.

    With G the average outer product of gradients in the features divided by `scales`, the map is G^POWER of those, of
    such a size that points are as far apart as before: the sum of its squares stays what it was.
    """
    kernel = problem.K.kernel
    inner = kernel.kernel if isinstance(kernel, Mapped) else kernel
    assert isinstance(inner, RadialKernel)
    coefficients = solve(problem, "direct").coefficients.numpy()
    rows = slice(0, ROWS)
    w = None if problem.weights is None else as_numpy(problem.weights[rows, 0])
    G = _outer_product(problem.K.rows(rows), coefficients, w) * np.outer(scales, scales)
    values, vectors = np.linalg.eigh(G)
    top = float(values[-1])
    if not np.isfinite(top) or top <= 0:
        raise FloatingPointError("the fitted function does not change with its inputs")
    kept = values > FLOOR * top
    gains = values[kept] ** POWER
    before = as_array(kernel.matrix) if isinstance(kernel, Mapped) else np.eye(problem.K.n_features)
    before = before / np.broadcast_to(as_array(inner.length_scale), len(before))[:, None]
    gains *= np.linalg.norm(before * scales) / np.linalg.norm(gains)
    return Mapped(inner.with_parameters({"length_scale": 1.0}), (gains[:, None] * vectors[:, kept].T / scales).tolist())
