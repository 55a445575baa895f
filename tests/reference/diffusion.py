"""Diffusions on a line with known spectra: dx = -V'(x) dt + √2 dW, by finite volumes, and samples of them."""

import numpy as np
from scipy.linalg import eigh_tridiagonal


def prinz(x):
    return 4 * (
        x**8 + 0.8 * np.exp(-80 * x**2) + 0.2 * np.exp(-80 * (x - 0.5) ** 2) + 0.5 * np.exp(-40 * (x + 0.5) ** 2)
    )


def double_well(x):
    return 2.5 * (x**2 - 1) ** 2


def triple_well(x):
    return 2 * (1 - np.cos(3 * np.pi * x / 2)) + 80 * np.maximum(np.abs(x) - 1.6, 0) ** 2


def eigenvalues(potential, low, high, lag, count=5, cells=4000):
    """The leading eigenvalues of the transfer operator at a lag.

    Cells of equal width with rates √(πⱼ/πᵢ)/h² between neighbors: a reversible chain, which becomes a symmetric
    tridiagonal matrix after scaling with √π.
    """
    edges = np.linspace(low, high, cells + 1)
    x, h = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    V = potential(x)
    up = np.exp(-(V[1:] - V[:-1]) / 2) / h**2  # from i to i + 1
    down = np.exp((V[1:] - V[:-1]) / 2) / h**2
    diagonal = -np.append(up, 0.0) - np.insert(down, 0, 0.0)
    rates = eigh_tridiagonal(
        diagonal, np.sqrt(up * down), select="i", select_range=(cells - count, cells - 1), eigvals_only=True
    )
    return np.exp(lag * rates[::-1])


def sample(potential, low, high, lag, runs, frames, seed, cells=500):
    """Stationary runs of the chain of cells at a lag, without an error of time steps: shape (runs, frames, 1).

    Within a cell the position is uniform, so the spectrum is that of the chain.
    """
    rng = np.random.default_rng(seed)
    edges = np.linspace(low, high, cells + 1)
    x, h = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    V = potential(x)
    root = np.exp(-(V - V.min()) / 2)
    up, down = np.exp(-(V[1:] - V[:-1]) / 2) / h**2, np.exp((V[1:] - V[:-1]) / 2) / h**2
    rates, vectors = eigh_tridiagonal(-np.append(up, 0.0) - np.insert(down, 0, 0.0), np.sqrt(up * down))
    P = (vectors * np.exp(lag * rates)) @ vectors.T * root / root[:, None]
    steps = np.cumsum(np.maximum(P, 0), axis=1)
    steps /= steps[:, -1:]
    cell = np.searchsorted(np.cumsum(root**2) / np.sum(root**2), rng.random(runs))
    found = np.empty((runs, frames), dtype=int)
    for t in range(frames):
        found[:, t] = cell
        cell = np.minimum((steps[cell] < rng.random(runs)[:, None]).sum(1), cells - 1)
    return (x[found] + h * (rng.random((runs, frames)) - 0.5))[:, :, None]


def ornstein_uhlenbeck(decay, frames, seed, runs=1):
    """Stationary runs of x' = decay x + √(1 - decay²) noise, whose eigenvalues are 1, decay, decay², ..."""
    rng = np.random.default_rng(seed)
    x = np.empty((runs, frames, 1))
    x[:, 0] = rng.normal(size=(runs, 1))
    noise = np.sqrt(1 - decay**2) * rng.normal(size=(frames, runs, 1))
    for t in range(1, frames):
        x[:, t] = decay * x[:, t - 1] + noise[t]
    return x
