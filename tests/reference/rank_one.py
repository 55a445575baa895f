"""Incremental Nyström KRLS by rank-one updates of a Cholesky factor, one center at a time (Camoriano 2017, 4.1)."""

import numpy as np


def updated(R, x, sign):
    """Upper triangular S with SᵀS = RᵀR + sign·xxᵀ."""
    R, x = R.copy(), x.copy()
    for k in range(len(x)):
        r = np.sqrt(R[k, k] ** 2 + sign * x[k] ** 2)
        c, s = r / R[k, k] if R[k, k] else np.inf, x[k] / R[k, k] if R[k, k] else np.inf
        if not R[k, k]:  # a row that is still empty: the rest of x moves into it
            R[k, k:] = np.sign(x[k]) * x[k:]
            x[k:] = 0
            continue
        R[k, k] = r
        R[k, k + 1 :] = (R[k, k + 1 :] + sign * s * x[k + 1 :]) / c
        x[k + 1 :] = c * x[k + 1 :] - s * R[k, k + 1 :]
    return R


def incremental(K, Kmm, Y, penalty):
    """Coefficients with the first 1, 2, ..., m centers."""
    n, m = K.shape
    R = np.zeros((0, 0))
    found = []
    for t in range(m):
        a = K[:, t]
        c = K[:, :t].T @ a + penalty * n * Kmm[:t, t]
        gamma = a @ a + penalty * n * Kmm[t, t]
        g = np.sqrt(1 + gamma)
        R = np.pad(R, (0, 1))
        R = updated(R, np.append(c / (1 + g), g), 1)
        R = updated(R, np.append(c / (1 + g), -1.0), -1)
        found.append(np.linalg.solve(R, np.linalg.solve(R.T, K[:, : t + 1].T @ Y)))
    return found
