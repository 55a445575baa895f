"""Systems whose dynamics are known: Lorenz's equations, an Ornstein-Uhlenbeck process, a diffusion in four wells."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

Array = np.ndarray[Any, Any]

DECAY = float(np.exp(-0.5))  # of the Ornstein-Uhlenbeck process: its eigenvalues are 1, DECAY, DECAY², ...
PRINZ = np.array([1.0, 0.9418, 0.6741, 0.4639])  # at lag 0.05, by finite volumes: tests/reference/diffusion.py


def lorenz(frames: int, dt: float = 0.01, burn_in: float = 5.0) -> Array:
    """Lorenz 1963 with σ = 10, ρ = 28 and β = 8/3 from (1, 1, 1), after a while."""

    def slope(_: float, x: Array) -> list[float]:
        return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]

    skipped = round(burn_in / dt)
    times = dt * np.arange(skipped + frames)
    found = solve_ivp(slope, (0, times[-1] + dt), (1.0, 1.0, 1.0), t_eval=times, rtol=1e-10, atol=1e-10)
    return np.ascontiguousarray(found.y.T[skipped:])


def ornstein_uhlenbeck(frames: int, runs: int, seed: int) -> Array:
    """Of shape (runs, frames, 1), stationary, with unit variance."""
    random = np.random.default_rng(seed)
    x = np.empty((runs, frames, 1))
    x[:, 0] = random.normal(size=(runs, 1))
    for t in range(1, frames):
        x[:, t] = DECAY * x[:, t - 1] + np.sqrt(1 - DECAY**2) * random.normal(size=(runs, 1))
    return x


def prinz(frames: int, runs: int, seed: int, lag: float = 0.05, cells: int = 500) -> Array:
    """dx = -V′(x) dt + √2 dW in four wells, every `lag`: shape (runs, frames, 1).

    The line is cut into cells, between which the diffusion jumps as a Markov chain; within a cell, places are uniform.
    There is no error of time steps, and runs begin in equilibrium.
    """
    random = np.random.default_rng(seed)
    edges = np.linspace(-1.5, 1.5, cells + 1)
    width = edges[1] - edges[0]
    energy = _potential((edges[1:] + edges[:-1]) / 2)
    rates = np.zeros((cells, cells))
    for here in range(cells - 1):
        ratio = np.exp((energy[here] - energy[here + 1]) / 2)
        rates[here, here + 1], rates[here + 1, here] = ratio / width**2, 1 / ratio / width**2
    np.fill_diagonal(rates, -rates.sum(1))
    steps = np.cumsum(expm(lag * rates), axis=1)
    weights = np.cumsum(np.exp(-energy))
    now = np.searchsorted(weights / weights[-1], random.random(runs))
    places = np.empty((runs, frames), dtype=np.int64)
    for t in range(frames):
        places[:, t] = now
        now = np.minimum((steps[now] < random.random(runs)[:, None]).sum(1), cells - 1)
    return (edges[places] + width * random.random((runs, frames)))[:, :, None]


def _potential(x: Array) -> Array:
    """V of Prinz et al. (2011)."""
    bumps = 0.8 * np.exp(-80 * x**2) + 0.2 * np.exp(-80 * (x - 0.5) ** 2) + 0.5 * np.exp(-40 * (x + 0.5) ** 2)
    return np.asarray(4 * (x**8 + bumps))
