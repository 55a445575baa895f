"""What EigenPro converges to, and a sum of squares in other weights to which it must not: dense and in float64."""

import numpy as np


def least_squares(K, Y):
    """The function values of the minimizer of ‖Kβ - Y‖, by singular values."""
    return K @ np.linalg.lstsq(K, Y, rcond=None)[0]


def interpolant(K, Y):
    """α with Kα = Y."""
    return np.linalg.solve(K, Y)


def preconditioned_first(K, Kxx, Y, count):
    """Function values where Kᵀ(I - Q)(Kβ - Y) = 0: the end of a descent that preconditions before it projects."""
    values, vectors = np.linalg.eigh(Kxx)
    values, vectors = values[::-1], vectors[:, ::-1]
    E = vectors[:, :count]
    weights = np.eye(len(K)) - E @ np.diag(1 - values[count] / values[:count]) @ E.T
    return K @ np.linalg.solve(K.T @ weights @ K, K.T @ weights @ Y)
