"""Stochastic gradients on the rows of a feature matrix, one step after the other, in float64."""

import numpy as np

from reference.losses import FORMULAS

VOTES = {None: lambda eta, k: 0.0, "steps": lambda eta, k: eta, "uniform": lambda eta, k: 1.0}
VOTES["polynomial"] = lambda eta, k: k**3


def orders(n, epochs, seed=0):
    """The rows in the order in which each epoch visits them."""
    return [np.random.default_rng([seed, epoch]).permutation(n) for epoch in range(epochs)]


def descend(Phi, Y, name, visits, step, *, decay=0.0, batch=1, penalty=0.0, weights=None, rate=0.0, averaging=None):
    """w and b, or their averages over the models before each step; rows of weight zero are as if not there."""
    w, b = np.zeros((Phi.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
    weights = np.ones(len(Y)) if weights is None else weights / weights[weights > 0].mean()
    sum_w, sum_b, votes, t = np.zeros_like(w), np.zeros_like(b), 0.0, 0
    for order in visits:
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            rows = rows[weights[rows] > 0]
            if len(rows) == 0:
                continue
            t += 1
            eta = step * t**-decay
            vote = VOTES[averaging](eta, t)
            sum_w, sum_b, votes = sum_w + vote * w, sum_b + vote * b, votes + vote
            slopes = weights[rows, None] * FORMULAS[name](Phi[rows] @ w + b, Y[rows])[1]
            w = (1 - 2 * eta * penalty) * w - eta * Phi[rows].T @ slopes / len(rows)
            b = b - eta * rate * slopes.mean(0)
    return (sum_w / votes, sum_b / votes) if averaging else (w, b)


def features(K):
    """Φ with ΦΦᵀ = K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))
