"""The variance of a Gaussian process seen through centers, dense and in float64."""

import numpy as np


def nystrom_variance(prior, Kx, K, Kmm, penalty, weights=None):
    """k(x, x) - qᵀ(Q + penalty·Σw·W⁻¹)⁻¹q with Q = K Kmm⁻¹ Kᵀ and q = K Kmm⁻¹ k(C, x), by the rows of Kx."""
    w = np.ones(len(K)) if weights is None else weights
    inverse = np.linalg.inv(Kmm)
    q = K @ inverse @ Kx.T
    system = K @ inverse @ K.T + penalty * w.sum() * np.diag(1 / w)
    return prior - np.einsum("ij,ij->j", q, np.linalg.solve(system, q))
