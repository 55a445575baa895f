"""Metastable states from eigenfunctions: PCCA+."""

from __future__ import annotations

import operator as operators
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from gyrfalcon.arrays import Array

SEEN = 5000  # rows that the optimizer looks at, besides the extreme ones
EVALUATIONS = 2000  # for each free parameter


@dataclass(frozen=True)
class MetastableStates:
    """Memberships in metastable states.

    Attributes
    ----------
    memberships : array of shape (n, states)
        Not negative; each row sums to one.
    crispness : float
        From 0 to 1: how far memberships are from being shared.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> x = np.repeat([-1.0, 1.0], 10)
    >>> found = gf.dynamics.states(np.stack([np.ones(20), x], 1), n_states=2)
    >>> len(set(found.labels[:10])), len(set(found.labels))
    (1, 2)
    """

    memberships: Array
    crispness: float

    @property
    def labels(self) -> Array:
        """The state that each row belongs to most."""
        return np.asarray(self.memberships.argmax(1))

    @property
    def populations(self) -> Array:
        """The share of the rows in each state."""
        return np.asarray(self.memberships.mean(0))


def states(phi: Any, n_states: int) -> MetastableStates:
    """Metastable states from the leading eigenfunctions, by PCCA+ (Röblitz and Weber 2013).

    Memberships are χ = ΦA, where Φ has a constant and the next eigenfunctions as orthonormal columns. A starts from the
    inner simplex, the rows that are furthest apart, and is then changed so that memberships are as crisp as possible
    while they stay positive and sum to one.

    Parameters
    ----------
    phi : array of shape (n, k)
        Left eigenfunctions at n frames of a stationary sample, as `Koopman.eigenfunctions` gives them, in the order of
        eigenvalues; the first is the stationary one. Of complex pairs real and imaginary parts are used.
    n_states : int
        At most k.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> x = np.concatenate([random.normal(-2, 0.3, 500), random.normal(0, 0.3, 300), random.normal(2, 0.3, 200)])
    >>> phi = np.stack([np.ones(1000), np.tanh(3 * (x - 1)), np.tanh(3 * (x + 1))], 1)
    >>> sorted(gf.dynamics.states(phi, 3).populations.round(1).tolist())
    [0.2, 0.3, 0.5]
    """
    functions = np.asarray(phi)
    count = operators.index(n_states)
    if functions.ndim != 2 or not np.isfinite(functions).all():
        raise ValueError(f"phi must be a finite array of shape (n, functions), got shape {functions.shape}")
    if not 2 <= count <= functions.shape[1] or count > len(functions):
        raise ValueError(
            f"n_states must lie between 2 and {functions.shape[1]}, the number of functions, got {n_states}"
        )
    basis = _orthonormal(_real(functions, count))
    vertices = _inner_simplex(basis)
    start = np.linalg.inv(basis[vertices])
    rows = np.union1d(vertices, np.linspace(0, len(basis) - 1, min(SEEN, len(basis))).astype(int))
    A = _crispest(basis[rows], start) if count > 1 else start
    A = _feasible(A[1:, 1:], basis)
    memberships = np.clip(basis @ A, 0.0, 1.0)
    memberships /= memberships.sum(1, keepdims=True)
    return MetastableStates(memberships, _crispness(A) / count)


def _real(functions: Array, count: int) -> Array:
    """The first functions as real ones that span the same space."""
    if not np.iscomplexobj(functions):
        return functions[:, :count].astype(np.float64)
    columns: list[Array] = []
    for column in functions.T:
        real, imaginary = column.real, column.imag
        if np.abs(imaginary).max() <= 1e-9 * np.abs(column).max():
            columns.append(real)
        elif len(columns) < 2 or not np.allclose(columns[-2], real) or not np.allclose(columns[-1], -imaginary):
            columns += [real, imaginary]
        if len(columns) >= count:
            return np.stack(columns[:count], 1)
    raise ValueError(f"phi has no more than {len(columns)} real functions: ask for fewer states")


def _orthonormal(functions: Array) -> Array:
    """A constant and the other functions without their means, orthonormal in the mean over the rows."""
    others = functions[:, 1:] - functions[:, 1:].mean(0)
    Q, R = np.linalg.qr(others)
    if np.abs(R.diagonal()).min(initial=np.inf) <= 1e-10 * np.abs(R).max(initial=0.0):
        raise ValueError("phi has functions that are constant or depend on each other: ask for fewer states")
    return np.hstack([np.ones((len(functions), 1)), Q * np.sqrt(len(functions))])


def _inner_simplex(basis: Array) -> Array:
    """Rows that are furthest apart: each is the furthest from the span of those before it."""
    points = basis[:, 1:] - basis[np.square(basis[:, 1:]).sum(1).argmax(), 1:]
    found = [int(np.square(basis[:, 1:]).sum(1).argmax())]
    for _ in range(basis.shape[1] - 1):
        sizes = np.square(points).sum(1)
        found.append(int(sizes.argmax()))
        direction = points[found[-1]] / np.sqrt(sizes.max())
        points = points - np.outer(points @ direction, direction)
    return np.array(found)


def _feasible(inner: Array, basis: Array) -> Array:
    """The matrix A with those inner entries whose memberships are positive, touch zero, and sum to one."""
    count = basis.shape[1]
    A = np.empty((count, count))
    A[1:, 1:] = inner
    A[1:, 0] = -inner.sum(1)
    A[0] = -(basis[:, 1:] @ A[1:]).min(0)
    return np.asarray(A / A[0].sum())


def _crispness(A: Array) -> float:
    """Σ over states of ⟨χ, χ⟩ / ⟨χ, 1⟩, at most the number of states."""
    return float((np.square(A).sum(0) / A[0]).sum())


def _crispest(basis: Array, start: Array) -> Array:
    size = basis.shape[1] - 1

    def loss(free: Array) -> float:
        A = _feasible(free.reshape(size, size), basis)
        return -_crispness(A) if (A[0] > 0).all() else np.inf

    found = minimize(
        loss,
        start[1:, 1:].ravel(),
        method="Nelder-Mead",
        options={"maxfev": EVALUATIONS * size * size, "xatol": 1e-6, "fatol": 1e-8},
    )
    return _feasible(found.x.reshape(size, size), basis)
