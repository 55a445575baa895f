"""Kernel ridge regression from its definition, dense and in float64."""

import numpy as np


def objective(K, Kmm, Y, penalty, beta, intercept, weights=None):
    """Σ wᵢ (f(xᵢ) + b - yᵢ)² / Σ wᵢ + penalty βᵀ Kmm β, one number per output."""
    w = np.ones(len(K)) if weights is None else weights
    gap = K @ beta + intercept - Y
    return w @ gap**2 / w.sum() + penalty * np.einsum("jk,jl,lk->k", beta, Kmm, beta)


def nystrom(K, Kmm, Y, penalty, weights=None, intercept=False):
    """The minimizer as a least-squares problem: √W [K 1] stacked on the root of the penalty."""
    w = np.ones(len(K)) if weights is None else weights
    root = np.sqrt(w / w.sum())[:, None]
    values, vectors = np.linalg.eigh(Kmm)
    penalty_root = np.sqrt(penalty * np.maximum(values, 0))[:, None] * vectors.T
    ones = np.ones((len(K), int(intercept)))
    design = np.block([[root * K, root * ones], [penalty_root, np.zeros((len(Kmm), int(intercept)))]])
    target = np.concatenate([root * Y, np.zeros((len(Kmm), Y.shape[1]))])
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    offset = solution[len(Kmm)] if intercept else np.zeros(Y.shape[1])
    return solution[: len(Kmm)], offset
