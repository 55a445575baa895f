"""Koopman operator regression written plainly, in an explicit feature space and with the formulas of the paper."""

import numpy as np
from scipy.linalg import eigh, sqrtm


def quadratic_features(X):
    """φ with φ(x)·φ(c) = (1 + x·c)²."""
    n, d = X.shape
    products = [X[:, i] * X[:, j] * (1.0 if i == j else np.sqrt(2)) for i in range(d) for j in range(i, d)]
    return np.column_stack([np.ones(n), np.sqrt(2) * X, *products])


def span(features):
    """An orthonormal basis of the span of the features of centers."""
    _, s, Vt = np.linalg.svd(features)
    return Vt[: int((s > 1e-10 * s[0]).sum())].T


def operator(method, phi, phi_next, rank, penalty, basis):
    """The matrix G of f = vᵀφ ↦ (Gv)ᵀφ on functions in the span of a basis."""
    Z, Z_next = phi @ basis, phi_next @ basis
    n = len(Z)
    S, B = Z.T @ Z / n, Z.T @ Z_next / n
    ridge = S + penalty * np.eye(len(S))
    if method == "krr":
        G = np.linalg.solve(ridge, B)
    elif method == "pcr":
        values, Q = np.linalg.eigh(S)
        Q, values = Q[:, ::-1][:, :rank], values[::-1][:rank]
        G = Q @ np.diag(1 / (values + penalty)) @ Q.T @ B
    else:  # the best approximation of rank k of (S + penalty)^(-1/2) B, seen from (S + penalty)^(1/2)
        root = np.real(sqrtm(ridge))
        U, s, Vt = np.linalg.svd(np.linalg.solve(root, B))
        G = np.linalg.solve(root, U[:, :rank] @ np.diag(s[:rank]) @ Vt[:rank])
    return basis @ G @ basis.T


def first_step(method, phi, targets, phi_next, rank, penalty, basis):
    """V with E[g(x') | x] = φ(x)ᵀV, for the values of g at the later states: the operator applied to g itself."""
    Z = phi @ basis
    n = len(Z)
    S, right = Z.T @ Z / n, Z.T @ targets / n
    ridge = S + penalty * np.eye(len(S))
    if method == "krr":
        return basis @ np.linalg.solve(ridge, right)
    if method == "pcr":
        values, Q = np.linalg.eigh(S)
        Q, values = Q[:, ::-1][:, :rank], values[::-1][:rank]
        return basis @ Q @ np.diag(1 / (values + penalty)) @ Q.T @ right
    root = np.real(sqrtm(ridge))
    U = np.linalg.svd(np.linalg.solve(root, Z.T @ (phi_next @ basis) / n))[0][:, :rank]
    return basis @ np.linalg.solve(root, U @ U.T @ np.linalg.solve(root, right))


def paper(method, Kx, Ky, Kcc, rank, penalty):
    """W of shape (m, m) in A = Φ_C W Φ_C*, from kernel matrices with the centers (propositions 3.1-3.3, corrected)."""
    n = len(Kx)
    S, C, inverse = Kx.T @ Kx, Ky.T @ Kx, np.linalg.pinv(Kcc, rcond=1e-12)
    if method == "krr":
        return inverse @ C @ np.linalg.pinv(S + n * penalty * Kcc, rcond=1e-13)
    if method == "pcr":
        mu, D = eigh(S, Kcc)
        mu, D = mu[::-1][:rank], D[:, ::-1][:, :rank]
        return inverse @ C @ D @ np.diag(1 / (mu + n * penalty)) @ D.T
    _, D = eigh(C.T @ inverse @ C, S + n * penalty * Kcc)
    D = D[:, ::-1][:, :rank]
    return inverse @ C @ D @ D.T


def pairs(lengths, lag):
    """Numbers of the earlier and later frames of all pairs within runs that lie one after the other."""
    found, start = [], 0
    for length in lengths:
        found += [(start + t, start + t + lag) for t in range(length - lag)]
        start += length
    return np.array(found, dtype=int).reshape(-1, 2).T
