"""Systems whose dynamics are known: Lorenz's equations, an Ornstein-Uhlenbeck process, a diffusion in four wells."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

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


def prinz(frames: int, runs: int, seed: int, dt: float = 1e-4, lag: float = 0.05) -> Array:
    """dx = -V′(x) dt + √2 dW in four wells, by Euler's method, every `lag`: shape (runs, frames, 1)."""
    random = np.random.default_rng(seed)
    x = random.uniform(-0.8, 0.8, size=runs)
    out = np.empty((runs, frames, 1))
    for t in range(-40, frames):  # the first ones forget where they began
        for _ in range(round(lag / dt)):
            x = x - _slope(x) * dt + np.sqrt(2 * dt) * random.normal(size=runs)
        if t >= 0:
            out[:, t, 0] = x
    return out


def _slope(x: Array) -> Array:
    """V′ of Prinz et al. (2011)."""
    wells = ((0.8, 80, 0.0), (0.2, 80, 0.5), (0.5, 40, -0.5))
    bumps = sum(-2 * rate * (x - place) * size * np.exp(-rate * (x - place) ** 2) for size, rate, place in wells)
    return np.asarray(4 * (8 * x**7 + bumps))
