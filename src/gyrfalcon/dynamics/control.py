"""Inputs: what acts on a system, and the linear quadratic regulator of its lifted state."""

from __future__ import annotations

import operator as operators
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array

from .forecast import Propagator
from .lift import Lift

LONGEST = 5000  # steps of Riccati's recursion
SETTLED = 1e-9  # relative change of the gain in a step
LARGEST = 1e100  # a cost at which the recursion ends: it has no bound
STABLE = 1.001  # a modulus up to which features count as kept small: that of the constant function is one


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
    """u = -gain · (z(x) - z(target)), the linear quadratic regulator of lifted states.

    Attributes
    ----------
    gain : array of shape (p, r)
    closed_loop : array of shape (r, r)
        How the features move under the regulator.
    cost : array of shape (r, r)
        The matrix of the cost that is still to come.
    steps : int
        How many steps of Riccati's recursion were made.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> U = random.normal(size=(20, 1))
    >>> X = np.zeros((20, 1))
    >>> for t in range(19):
    ...     X[t + 1] = 1.1 * X[t] + U[t]  # unstable
    >>> model = gf.dynamics.Koopman("krr", kernel="linear", penalty=1e-12).fit(X, inputs=U)
    >>> regulator = model.lqr(np.eye(1), np.eye(1))
    >>> bool(np.abs(regulator.eigenvalues).max() < 1)
    True
    >>> regulator(np.array([[2.0]])).shape
    (1, 1)
    """

    lift: Lift
    origin: Array
    gain: Array
    closed_loop: Array
    cost: Array
    steps: int

    @property
    def eigenvalues(self) -> Array:
        """Those of the closed loop. What inputs cannot move, such as the constant function, keeps its own."""
        return np.asarray(np.linalg.eigvals(self.closed_loop))

    def __call__(self, X: Any) -> Array:
        """Inputs for states of shape (n, d), of shape (n, p)."""
        states = np.asarray(X, dtype=np.float64)
        return np.asarray(-(self.lift(states) - self.origin) @ self.gain.T)


def regulator(propagator: Propagator, Q: Any, R: Any, target: Any, horizon: int | None, penalty: float) -> Regulator:
    """The regulator of z′ = Ĝᵀz + Hᵀu, with costs of the state, which is Cᵀz by ridge regression at the centers.

    Riccati's recursion is followed for a horizon, or until the gain settles. Unlike the equation, it does not ask that
    inputs reach everything: features such as the constant function stay where they are whatever the inputs do.
    """
    operator, lift = propagator.operator, propagator.lift
    d, p = lift.centers.shape[1], propagator.n_inputs
    Q, R = _weights(Q, d, "Q", definite=False), _weights(R, p, "R", definite=True)
    rest = np.zeros(d) if target is None else np.asarray(target, dtype=np.float64)
    if rest.shape != (d,):
        raise ValueError(f"target must have shape {(d,)}, got {rest.shape}")
    A, B = operator.matrix().T, operator.input_matrix(p).T
    C = lift.whitening.project(lift.centers.astype(np.float64), penalty)
    stage = C @ Q @ C.T
    cost, gain, closed = stage, np.zeros((p, len(A))), A
    if horizon is not None and operators.index(horizon) < 1:
        raise ValueError(f"horizon must be a positive number of steps, got {horizon!r}")
    step, settled = 0, False
    while not settled and step < (LONGEST if horizon is None else horizon):
        pushed = B.T @ cost
        before, gain = gain, np.linalg.solve(R + pushed @ B, pushed @ A)
        closed = A - B @ gain
        cost = stage + gain.T @ R @ gain + closed.T @ cost @ closed
        settled = bool(np.abs(gain - before).max() <= SETTLED * np.abs(gain).max())
        if np.abs(cost).max() > LARGEST:
            break
        step += 1
    found = Regulator(lift, lift(rest[None])[0], gain, closed, cost, step)
    if horizon is None and (not settled or np.abs(found.eigenvalues).max() > STABLE):
        raise ValueError(
            "horizon=None: no gain keeps all features small, since some grow that inputs do not reach, such as squares "
            "of what is unstable: fit with a smaller rank, or give a horizon, a number of steps"
        )
    return found


def _weights(value: Any, size: int, name: str, *, definite: bool) -> Array:
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise ValueError(f"{name} must be a symmetric matrix of shape {(size, size)}, got shape {matrix.shape}")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < 0 or (definite and least <= 0):
        raise ValueError(f"{name} must be positive {'definite' if definite else 'semi-definite'}")
    return matrix
