"""Spectral filters and Krylov spaces from their definitions, dense and in float64."""

from dataclasses import dataclass

import numpy as np
from scipy.special import eval_jacobi


@dataclass
class Dense:
    """The equations (ZᵀWZ/Σw - uuᵀ + penalty) v = ZᵀWY/Σw - uȳᵀ, Z = K·Kmm^(-1/2), and predictions from their v."""

    root: np.ndarray  # Kmm^(-1/2), of full rank columns only
    matrix: np.ndarray
    right: np.ndarray
    u: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, K, Kmm, Y, penalty=0.0, weights=None, intercept=False):
        w = np.ones(len(K)) if weights is None else weights
        w = w / w.sum()
        values, vectors = np.linalg.eigh(Kmm)
        kept = values > 1e-12 * values.max()
        root = vectors[:, kept] / np.sqrt(values[kept])
        Z = K @ root
        u, mean = (w @ Z, w @ Y) if intercept else (np.zeros(Z.shape[1]), np.zeros(Y.shape[1]))
        centered = Z - u
        matrix = centered.T @ (w[:, None] * centered) + penalty * np.eye(Z.shape[1])
        return cls(root, matrix, centered.T @ (w[:, None] * (Y - mean)), u, mean)

    def predict(self, K, v):
        return (K @ self.root - self.u) @ v + self.mean

    def filtered(self, g):
        """v = U g(σ) Uᵀ right."""
        values, U = np.linalg.eigh(self.matrix)
        return U @ (g(np.maximum(values, 0))[:, None] * (U.T @ self.right))

    def landweber(self, t, step):
        return self.filtered(lambda s: step * sum((1 - step * s) ** i for i in range(t)))

    def nu_method(self, t, step, nu):
        """1 - σg(σ) is a Jacobi polynomial."""
        a, b = 2 * nu - 0.5, -0.5

        def g(s):
            left = eval_jacobi(t, a, b, 1 - 2 * step * s) / eval_jacobi(t, a, b, 1.0)
            slope = step * t * (t + a + b + 1) / (a + 1)  # where s vanishes
            return np.where(s > 1e-9, (1 - left) / np.where(s > 1e-9, s, 1.0), slope)

        return self.filtered(g)

    def cut_off(self, k):
        values, U = np.linalg.eigh(self.matrix)
        U, values = U[:, ::-1][:, :k], values[::-1][:k]
        return U @ ((U.T @ self.right) / values[:, None])

    def krylov(self, t):
        """The minimizer of vᵀ matrix v - 2 rightᵀ v over span(r, Ar, ..., A^(t-1) r), each output in its own space."""
        solved = np.zeros_like(self.right)
        for column in range(self.right.shape[1]):
            basis = np.zeros((len(self.matrix), 0))
            fresh = self.right[:, column]
            for _ in range(t):  # orthogonal at once: powers of A are all but parallel
                for _ in range(2):
                    fresh = fresh - basis @ (basis.T @ fresh)
                basis = np.column_stack([basis, fresh / np.linalg.norm(fresh)])
                fresh = self.matrix @ basis[:, -1]
            reduced = basis.T @ self.matrix @ basis
            solved[:, column] = basis @ np.linalg.solve(reduced, basis.T @ self.right[:, column])
        return solved

    def objective(self, Y, v, floor):
        return floor - 2 * np.sum(v * self.right, 0) + np.sum(v * (self.matrix @ v), 0)


def landweber_on_points(K, Y, step, t):
    """α ← α + step·(Y - Kα)/n, all points being centers."""
    alpha = np.zeros_like(Y)
    for _ in range(t):
        alpha = alpha + step * (Y - K @ alpha) / len(K)
    return alpha


def patient_minimum(errors, patience, tolerance):
    """Where a walk along the errors stops, and which it takes; errors[0] is that of f = 0."""
    mark, since = errors[0], 0
    for place in range(1, len(errors)):
        if errors[place] < (1 - tolerance) * mark:
            mark, since = errors[place], place
        elif place - since == patience:
            break
    return place, int(np.argmin(errors[: place + 1]))
