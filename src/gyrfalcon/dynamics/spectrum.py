"""Eigenvalues and eigenfunctions of an estimated operator, modes of observables and time scales."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eig

from gyrfalcon.arrays import Array

from .operator import Operator

ZERO = 1e-12  # of the largest modulus: eigenvalues below it are those of directions that are lost in one step
DEFECTIVE = 1e10  # the condition of the eigenvectors above which their duals have no digits worth having
ABOVE_ONE = 1e-9  # by how much rounding may lift a modulus above one


class DefectiveError(ValueError):
    """An operator whose eigenvectors are not a basis, so that eigenfunctions and modes do not describe it.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> A = np.array([[0.5, 1.0], [0.0, 0.5]])  # a Jordan block
    >>> X = np.array([np.linalg.matrix_power(A, t) @ [1.0, 1.0] for t in range(8)])
    >>> model = gf.dynamics.Koopman("krr", kernel="linear", penalty=0.0).fit(X)
    >>> np.allclose(model.predict(X[:1], steps=5), X[5])  # powers of the operator do not need eigenvectors
    True
    """


class TimescaleWarning(UserWarning):
    """Eigenvalues that have no time scale.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> issubclass(gf.dynamics.TimescaleWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class Spectrum:
    """Ĝ R = R diag(λ) and Ĝᵀ L = L diag(λ) with Rᵀ L = I, for the eigenvalues of an operator that are not zero.

    Eigenfunctions are z(x)ᵀR, of the Koopman operator, and z(x)ᵀL, of its adjoint. In the notation of the papers, where
    the adjoint is A and A* is the Koopman operator, the columns of L are ψ and those of R are conjugates of ξ:
    A ψ = λ ψ, A* ξ = λ̄ ξ and ξᵢ* ψⱼ = δᵢⱼ. Each ψ has norm one, and ξ the scale that follows.

    Attributes
    ----------
    values : array of shape (k,)
        λ, by decreasing modulus; complex only if some are.
    right_coordinates : array of shape (r, k)
        L.
    left_coordinates : array of shape (r, k)
        R.
    dual : array of shape (k, k)
        What turns a readout of the operator into modes.
    condition : float
        The condition number of the eigenvectors: large for operators that are nearly defective.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(300)
    >>> model = gf.dynamics.Koopman(n_centers=30, rank=5, random_state=0).fit(np.stack([np.cos(t), np.sin(t)], 1))
    >>> spectrum = model.spectrum_
    >>> np.allclose(spectrum.left_coordinates.T @ spectrum.right_coordinates, np.eye(5), atol=1e-6)
    True
    """

    values: Array
    left_coordinates: Array
    right_coordinates: Array
    dual: Array
    condition: float

    @classmethod
    def of(cls, operator: Operator) -> Spectrum:
        core = operator.core
        values, vectors = eig(core) if len(core) else (np.zeros(0), np.zeros((0, 0)))
        order = np.lexsort((-values.imag, -values.real, -np.round(np.abs(values), 13)))
        values, vectors = values[order], vectors[:, order]
        condition = float(np.linalg.cond(vectors)) if len(values) else 1.0
        lasting = np.abs(values) > ZERO * np.abs(values).max(initial=0.0)
        if not np.iscomplexobj(core) and np.all(values.imag == 0):
            values, vectors = values.real, vectors.real
        # Of a defective operator there is no dual, and asking for it is an error.
        dual = np.linalg.inv(vectors) if condition < DEFECTIVE else np.full_like(vectors, np.nan)
        values, vectors, dual = values[lasting], vectors[:, lasting], dual[lasting]
        left = operator.factor[: operator.features] @ vectors
        right = (operator.image @ dual.T) / values
        scale = np.linalg.norm(right, axis=0) if condition < DEFECTIVE else 1 / np.linalg.norm(left, axis=0)
        phase = _phases(left)
        left, right, dual = left * (scale / phase), right * (phase / scale), dual * (phase / scale)[:, None]
        return cls(values, left, right, dual, condition)

    def check(self) -> None:
        """Refuse to speak of duals that do not exist."""
        if not self.condition < DEFECTIVE:
            raise DefectiveError(
                f"the operator is defective: its eigenvectors have condition number {self.condition:.1e}, so that "
                "modes and right eigenfunctions do not exist; predict does not need them. Another lag or rank may help"
            )

    def modes(self, readout: Array) -> Array:
        """γ of shape (k, t), with E[g(x_t) | x] = Σᵢ λᵢᵗ ξᵢ(x) γᵢ for t ≥ 1, from the readout of an observable."""
        self.check()
        return np.asarray((self.dual @ readout) / self.values[:, None])


def _phases(vectors: Array) -> Array:
    """The phase of the largest entry of each column."""
    if vectors.size == 0:
        return np.ones(vectors.shape[1])
    largest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])]
    return np.asarray(largest / np.where(largest == 0, 1.0, np.abs(largest)))


def timescales(eigenvalues: Any, lag: float, dt: float = 1.0, *, warn: bool = True) -> Array:
    """-lag · dt / log λ for eigenvalues between 0 and 1: how long it takes until a process has decayed to 1/e.

    Eigenvalues of one and above stand for what does not decay: infinity. Those that are negative or complex stand for
    processes that alternate or turn, which is not decay: they have NaN, and a warning says so.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
    lag : float
        In frames.
    dt : float
        The time between frames.
    warn : bool
        Whether to give the reason for NaN as a warning.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> gf.dynamics.timescales(np.exp([0.0, -0.1, -0.5]), lag=2, dt=0.5).round(3)
    array([inf, 10.,  2.])
    """
    values = np.asarray(eigenvalues)
    turning = np.abs(values.imag) > ABOVE_ONE * np.abs(values)
    negative = ~turning & (values.real <= 0)
    out = np.full(values.shape, np.nan)
    decaying = ~(turning | negative)
    moduli = values.real[decaying]
    with np.errstate(divide="ignore"):
        logs = np.log(np.minimum(moduli, 1.0))
        out[decaying] = np.where(logs < -ABOVE_ONE, -lag * dt / np.where(logs == 0, -1.0, logs), np.inf)
    if warn and not decaying.all():
        warnings.warn(
            f"{int(turning.sum())} complex and {int(negative.sum())} negative eigenvalues have no time scale "
            "(NaN): they turn or alternate rather than decay",
            TimescaleWarning,
            stacklevel=2,
        )
    return out
