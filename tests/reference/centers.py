"""What center rules approximate, dense and in float64."""

import numpy as np


def leverage_scores(K, penalty, weights=None):
    """diag(√W K √W (√W K √W + penalty·Σw·I)⁻¹)."""
    w = np.ones(len(K)) if weights is None else weights
    weighted = np.sqrt(np.outer(w, w)) * K
    return np.linalg.solve(weighted + penalty * w.sum() * np.eye(len(K)), weighted).diagonal()


def nystrom_trace_error(K, K_centers, Kmm):
    """tr(K - k(X, C) k(C, C)⁺ k(C, X)), what elimination of the centers leaves of the diagonal of K.

    Centers are eliminated one by one, the one with most left first, until the rest is rounding. This is backward
    stable: nothing is multiplied by the condition number of k(C, C), as it is where an inverse is formed.
    """
    left, rows, corner = K.diagonal().copy(), K_centers.T.copy(), Kmm.copy()
    rounding = len(Kmm) * np.finfo(np.float64).eps * Kmm.diagonal().max()
    while corner.diagonal().max() > rounding:
        pivot = corner.diagonal().argmax()
        root = np.sqrt(corner[pivot, pivot])
        column, row = corner[:, pivot] / root, rows[pivot] / root
        corner -= np.outer(column, column)
        rows -= np.outer(column, row)
        left -= row**2
    return left.sum()


def best_trace_error(K, rank):
    """The least error of any approximation of that rank: the sum of the other eigenvalues."""
    return np.linalg.eigvalsh(K)[: len(K) - rank].sum()


def quantization_error(X, C):
    """Mean over the rows of X of the squared distance from the nearest row of C."""
    return np.mean([np.min(np.sum((x - C) ** 2, axis=1)) for x in X])
