"""The three regressions that estimate a Koopman operator, as small matrices made of moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from gyrfalcon.arrays import Array
from gyrfalcon.moments import LaggedMoments

METHODS = ("rrr", "pcr", "krr")


@dataclass(frozen=True)
class Operator:
    """Ĝ = W Wᵀ B, the matrix of the Koopman operator on functions vᵀz: f(x) = vᵀz(x) becomes (Ĝv)ᵀz(x).

    B = E[z z′ᵀ], and W Wᵀ stands in for the inverse of S = E[z zᵀ]. All that is asked of the operator goes through
    the k columns of W.

    Attributes
    ----------
    factor : array of shape (q, k)
        W. It has more rows than there are features if there are inputs.
    image : array of shape (r, k)
        Bᵀ W.
    readout : array of shape (k, t)
        Wᵀ E[z x′ᵀ]: what predicts the next state.
    """

    factor: Array
    image: Array
    readout: Array

    @property
    def features(self) -> int:
        return len(self.image)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    @property
    def core(self) -> Array:
        """M = Wᵀ B W, of shape (k, k): it has the eigenvalues of Ĝ that are not zero, and Ĝᵗ W = W Mᵗ."""
        return np.asarray(self.image.T @ self.factor[: self.features])

    def leading(self, rank: int) -> Operator:
        """The operator of a smaller rank, for "pcr" and "rrr", whose columns of W come by importance."""
        return Operator(self.factor[:, :rank], self.image[:, :rank], self.readout[:rank])

    def matrix(self) -> Array:
        """Ĝ, of shape (r, r)."""
        return np.asarray(self.factor[: self.features] @ self.image.T)

    def input_matrix(self, inputs: int) -> Array:
        """How inputs move the features: z′ = Ĝᵀz + Hᵀu has H of shape (p, r)."""
        return np.asarray(self.factor[self.features : self.features + inputs] @ self.image.T)

    def input_cores(self, inputs: int) -> tuple[Array, list[Array]]:
        """Wᵤ of shape (p, k), and for each input of the bilinear form the matrix (Bᵀ W)ᵀ Wⱼ that it scales."""
        r = self.features
        direct = self.factor[r : r + inputs]
        rest = self.factor[r + inputs :]
        return direct, [np.asarray(self.image.T @ rest[j * r : (j + 1) * r]) for j in range(len(rest) // max(1, r))]


def solve(moments: LaggedMoments, method: str, rank: int | None, penalty: float, inputs: int = 0) -> Operator:
    """Estimate the operator from moments by one of three regressions.

    With S = E[z zᵀ] = Q diag(μ) Qᵀ and B = E[z z′ᵀ],

    - "krr", kernel ridge regression, has W Wᵀ = (S + penalty)⁻¹,
    - "pcr", principal component regression, has W = Q_k diag(μ_k + penalty)^(-1/2) with the k largest μ,
    - "rrr", reduced rank regression, has W = (S + penalty)^(-1/2) U_k with the k leading left singular vectors of
      (S + penalty)^(-1/2) B.

    Parameters
    ----------
    moments : LaggedMoments
    method : "rrr", "pcr" or "krr"
    rank : int or None
        k; fewer if the data do not carry that many. None takes all.
    penalty : float
    inputs : int
        How many inputs there are among the regressors. They are measured in units of their root mean square.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.dynamics.operator import solve
    >>> X = np.array([[1.0, 2.0]]) * 0.5 ** np.arange(6)[:, None] ** [[1.0, 2.0]]
    >>> model = gf.dynamics.Koopman("krr", kernel="linear", penalty=0.0).fit(X)
    >>> solve(model.moments_, "krr", None, 0.0).rank
    2
    """
    cross = moments.cross
    n = cross.weight
    S, B, targets = cross.before / n, cross.between / n, moments.sums.cross / n
    units = np.ones(len(S))
    if inputs:
        units = _units(S, B.shape[1], inputs)
        S, B, targets = S * units * units[:, None], B * units[:, None], targets * units[:, None]
    root = inverse_root(S, penalty)
    if method == "pcr":
        root = root[:, :rank]
    elif method == "rrr":
        root = root @ _leading(root.T @ B, rank)
    factor = units[:, None] * root
    return Operator(factor, B.T @ root, root.T @ targets)


def inverse_root(S: Array, penalty: float) -> Array:
    """Q diag(μ + penalty)^(-1/2) without directions that are only rounding; the largest μ first."""
    values, vectors = eigh(S)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    kept = values + penalty > len(S) * np.finfo(float).eps * float(values.max(initial=0.0))
    kept &= values + penalty > 0
    values, vectors = values[kept], vectors[:, kept]
    return np.asarray(vectors / np.sqrt(values + penalty))


def _leading(A: Array, rank: int | None) -> Array:
    """The leading left singular vectors of A, as many as are more than rounding."""
    size = len(A)
    count = size if rank is None else min(rank, size)
    if count == 0:
        return np.zeros((size, 0))
    values, vectors = eigh(A @ A.T, subset_by_index=[size - count, size - 1])
    kept = values > size * np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(vectors[:, kept][:, ::-1])


def _units(S: Array, rank: int, inputs: int) -> Array:
    """One over the root mean square of inputs, so that the penalty does not depend on their units; one for features."""
    squares = S.diagonal()[rank : rank + inputs]
    scales = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    products = (len(S) - rank - inputs) // rank if rank else 0
    return np.concatenate([np.ones(rank), scales, np.repeat(scales[:products], rank)])
