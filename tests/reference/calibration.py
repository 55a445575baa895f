"""Scores of rows that are left out, by as many fits as there are rows, in plain float64."""

import numpy as np


def leave_one_out(K, Kmm, Y, weights, noise, *, intercept):
    """f(xᵢ) of Σⱼ wⱼ (f(xⱼ) - yⱼ)² + noise ‖f‖² over all rows but one copy of i, with f in the span of the centers.

    K is k(X, C) and Kmm is k(C, C). A row of weight above one keeps what is left of it.
    """
    scores = np.empty_like(Y)
    for i in range(len(K)):
        w = weights.copy()
        w[i] = max(w[i] - 1, 0.0)
        columns = np.column_stack([K, np.ones(len(K))]) if intercept else K
        ridge = np.zeros((columns.shape[1],) * 2)
        ridge[: len(Kmm), : len(Kmm)] = noise * Kmm
        beta = np.linalg.lstsq(columns.T @ (w[:, None] * columns) + ridge, columns.T @ (w[:, None] * Y), rcond=1e-14)[0]
        scores[i] = columns[i] @ beta
    return scores


def slopes(shares, labels, weights, floor, prior, bounds):
    """The slopes of greatest posterior density, by a search on grids that grow finer."""
    low, high = np.array([bounds[0], bounds[1]]), np.array([12.0, 12.0])
    logarithms = np.log(floor + np.maximum(shares, 0))

    def value(a, b):
        logits = a * shares + b * logarithms
        chosen = logits[np.arange(len(labels)), labels]
        return weights @ (np.log(np.exp(logits).sum(1)) - chosen) + ((a - prior[0]) ** 2 + (b - prior[1]) ** 2) / 2

    for _ in range(12):
        first, second = (np.linspace(low[j], high[j], 21) for j in range(2))
        values = np.array([[value(a, b) for b in second] for a in first])
        i, j = np.unravel_index(values.argmin(), values.shape)
        best, width = np.array([first[i], second[j]]), (high - low) / 5
        low, high = np.maximum(best - width / 2, bounds), best + width / 2
    return best
