"""Inputs: what acts on a system, and the linear quadratic regulator of its lifted state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_discrete_are

from gyrfalcon.arrays import Array

from .forecast import Propagator
from .lift import Lift

NEARLY_ONE = 1 - 1e-6  # a discount that bounds the cost of what inputs cannot reach


def read_inputs(inputs: Any, rows: int, steps: int, width: int) -> Array | None:
    """Inputs of forecasts, of shape (n, steps, p)."""
    if width == 0:
        if inputs is not None:
            raise ValueError("inputs were given, but the model was fitted without: leave them out")
        return None
    if inputs is None:
        raise ValueError(f"inputs are missing: the model was fitted with {width}")
    given = np.asarray(inputs, dtype=np.float64)
    if given.ndim == 2 and steps == 1:
        given = given[:, None]
    if given.ndim != 3 or given.shape[0] != rows or given.shape[1] < steps or given.shape[2] != width:
        raise ValueError(f"inputs must have shape {(rows, steps, width)}, got {np.shape(inputs)}")
    if not np.isfinite(given).all():
        raise ValueError("inputs contain NaN or infinity")
    return given


@dataclass(frozen=True)
class Regulator:
    """u = -gain · (s(x) - s(target)), the linear quadratic regulator of lifted coordinates s(x) = Wᵀz(x).

    Attributes
    ----------
    gain : array of shape (p, k)
    closed_loop : array of shape (k, k)
        How the coordinates move under the regulator.
    cost : array of shape (k, k)
        The matrix of the cost that is still to come.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> U = random.normal(size=(200, 1))
    >>> X = np.zeros((200, 1))
    >>> for t in range(199):  # unstable
    ...     X[t + 1] = 1.1 * X[t] + U[t] if abs(X[t]) < 5 else 0.0
    >>> model = gf.dynamics.Koopman("krr", kernel="linear", penalty=1e-12).fit(X[:20], inputs=U[:20])
    >>> regulator = model.lqr(np.eye(1), np.eye(1))
    >>> bool(np.abs(regulator.eigenvalues).max() < 1)
    True
    >>> regulator(np.array([[2.0]])).shape
    (1, 1)
    """

    lift: Lift
    factor: Array
    gain: Array
    closed_loop: Array
    cost: Array
    origin: Array

    @property
    def eigenvalues(self) -> Array:
        """Those of the closed loop."""
        return np.asarray(np.linalg.eigvals(self.closed_loop))

    def __call__(self, X: Any) -> Array:
        """Inputs for states of shape (n, d), of shape (n, p)."""
        states = np.asarray(X, dtype=np.float64)
        return np.asarray(-(self.lift(states) @ self.factor - self.origin) @ self.gain.T)


def regulator(
    propagator: Propagator, project: Callable[[Array, float], Array], Q: Any, R: Any, target: Any, discount: float
) -> Regulator:
    """The regulator of s = Wᵀz, whose motion is s′ = Mᵀs + Wᵤᵀu, with costs of the state that s stands for."""
    operator, lift = propagator.operator, propagator.lift
    d, p = lift.centers.shape[1], propagator.n_inputs
    Q, R = _weights(Q, d, "Q", definite=False), _weights(R, p, "R", definite=True)
    if not 0 < discount <= 1:
        raise ValueError(f"discount must lie in (0, 1], got {discount!r}")
    rest = np.zeros(d) if target is None else np.asarray(target, dtype=np.float64)
    if rest.shape != (d,):
        raise ValueError(f"target must have shape {(d,)}, got {rest.shape}")
    # Features span the coordinates: z follows from s as the operator's image of the step before, so that the state is
    # read from s by the least squares that turns s into z.
    factor = operator.factor[: operator.features]
    states = project(lift.centers.astype(np.float64), 0.0)
    C = np.linalg.lstsq(factor, states, rcond=None)[0].T
    A, B = operator.core.T, operator.factor[operator.features :].T
    best: LinAlgError | None = None
    for rate in dict.fromkeys((discount, min(discount, NEARLY_ONE), min(discount, NEARLY_ONE**100))):
        root = np.sqrt(rate)
        try:
            cost = solve_discrete_are(root * A, root * B, C.T @ Q @ C, R)
        except LinAlgError as error:
            best = error
            continue
        gain = np.linalg.solve(R + rate * B.T @ cost @ B, rate * B.T @ cost @ A)
        return Regulator(lift, factor, gain, A - B @ gain, cost, lift(rest[None])[0] @ factor)
    raise ValueError(
        f"no regulator exists ({best}): the inputs do not reach what has to be kept small, or use a discount"
    )


def _weights(value: Any, size: int, name: str, *, definite: bool) -> Array:
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise ValueError(f"{name} must be a symmetric matrix of shape {(size, size)}, got shape {matrix.shape}")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < 0 or (definite and least <= 0):
        raise ValueError(f"{name} must be positive {'definite' if definite else 'semi-definite'}")
    return matrix
