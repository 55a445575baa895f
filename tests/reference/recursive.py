"""Least squares on a stream from its definition: all rows at once, stacked on the root of the penalty, in float64."""

import numpy as np


def ridge(X, Y, penalty, weights=None, intercept=True):
    """W and b of Σ wᵢ ‖yᵢ - W'xᵢ - b‖² + penalty ‖W‖²: of shape (d, t) and (t,)."""
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float).reshape(len(X), -1)
    root = np.sqrt(np.ones(len(X)) if weights is None else weights)[:, None]
    d = X.shape[1]
    ones = np.ones((len(X), int(intercept)))
    design = np.block([[root * X, root * ones], [np.sqrt(penalty) * np.eye(d), np.zeros((d, int(intercept)))]])
    solution = np.linalg.lstsq(design, np.vstack([root * Y, np.zeros((d, Y.shape[1]))]), rcond=None)[0]
    return solution[:d], solution[d] if intercept else np.zeros(Y.shape[1])


def forgotten(n, forgetting):
    """The weights of n rows when each has multiplied those before it by a factor."""
    return forgetting ** np.arange(n - 1.0, -1.0, -1.0)


def deviation(X, Y, penalty, at, weights=None, intercept=True):
    """Standard deviations of new observations: Bayesian linear regression, noise of maximum likelihood."""
    w = np.ones(len(X)) if weights is None else weights
    W, b = ridge(X, Y, penalty, w, intercept)
    Y = np.asarray(Y, dtype=float).reshape(len(X), -1)
    noise = (w @ (Y - X @ W - b) ** 2 + penalty * (W**2).sum(0)) / w.sum()
    ones, S = (lambda A: np.hstack([np.ones((len(A), int(intercept))), A])), np.eye(X.shape[1] + int(intercept))
    S[: int(intercept)] = 0
    A = ones(X).T @ (w[:, None] * ones(X)) + penalty * S
    variance = np.einsum("ij,ij->i", ones(at), np.linalg.solve(A, ones(at).T).T)
    return np.sqrt((1 + variance)[:, None] * noise)


def one_hot(labels):
    """Sorted classes, and a row with a one in the column of each label."""
    classes = np.unique(labels)
    return classes, (np.asarray(labels)[:, None] == classes).astype(float)


def recoded(X, labels, penalty, alpha, weights=None, intercept=True):
    """W Γ^α and b Γ^α, Γ = n / nₜ (Camoriano 2017, Algorithm 7.1)."""
    w = np.ones(len(X)) if weights is None else weights
    _, Y = one_hot(labels)
    W, b = ridge(X, Y, penalty, w, intercept)
    gamma = (w.sum() / (w @ Y)) ** alpha
    return W * gamma, b * gamma


def rebalanced(X, labels, penalty, weights=None, intercept=True):
    """The solution with each row weighted by the inverse share of its class (7.22)."""
    w = np.ones(len(X)) if weights is None else weights
    _, Y = one_hot(labels)
    shares = (w @ Y) / w.sum()
    return ridge(X, Y, penalty, w / (Y @ shares), intercept)
