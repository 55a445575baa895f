"""Exact leaves from their definition: dense, in float64, one point at a time."""

import numpy as np

from .kernels import dense


def exact_ridge(kernel, X, Y, noise, weights=None, intercept=False):
    """α and b of (K + noise·W⁻¹) α + b = Y, with 1ᵀα = 0 if there is an intercept."""
    w = np.ones(len(X)) if weights is None else weights
    A = dense(kernel, X, X) + np.diag(noise / w)
    if not intercept:
        return np.linalg.solve(A, Y), np.zeros(Y.shape[1])
    bordered = np.block([[A, np.ones((len(X), 1))], [np.ones((1, len(X))), np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.concatenate([Y, np.zeros((1, Y.shape[1]))]))
    return solved[:-1], solved[-1]


def leaf_weights(tree, x):
    """The weight of each leaf that answers for one point, by walking down the tree."""
    found = {}

    def walk(node, weight):
        if node < 0:
            found[-1 - node] = found.get(-1 - node, 0.0) + weight
            return
        at, low, high = tree.directions[node] @ x, tree.lower[node], tree.upper[node]
        if low == high:
            share = 0.5 if at == low else float(at > low)
        else:
            s = min(1.0, max(0.0, (at - low) / (high - low)))
            share = 6 * s**5 - 15 * s**4 + 10 * s**3
        for child, part in ((0, 1 - share), (1, share)):
            if part > 0:
                walk(tree.children[node, child], weight * part)

    walk(0 if len(tree.lower) else -1, 1.0)
    return found


def leaf_values(function, leaf, X):
    """The function of one leaf and its posterior variance, in units of the prior's."""
    rows = slice(function.offsets[leaf], function.offsets[leaf + 1])
    points = function.points[rows]
    K = dense(function.kernel, X, points)
    w = np.ones(len(points)) if function.weights is None else function.weights[rows]
    A = dense(function.kernel, points, points) + np.diag(function.noise / w)
    prior = np.array([dense(function.kernel, x[None], x[None])[0, 0] for x in X])
    variance = prior - np.einsum("ij,ji->i", K, np.linalg.solve(A, K.T))
    return K @ function.coefficients[rows] + function.intercepts[leaf], variance
