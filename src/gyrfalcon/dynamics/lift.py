"""Features of states: whitened kernel rows, and products of them with inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.data import Points
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import SpectralWhitening

BLOCK_ROWS = 2048  # states that are lifted together
INPUT_FORMS = ("affine", "bilinear")


class Lift:
    """z(x), the whitened features of a state: functions of a kernel's span are vᵀz, with ‖v‖ as their norm.

    Parameters
    ----------
    kernel : Kernel
    centers : array of shape (m, d)
    memory_budget : int, optional
    whitening : SpectralWhitening, optional
        If it is known already.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> from gyrfalcon.dynamics.lift import Lift
    >>> lift = Lift(gf.kernels.Gaussian(), np.array([[0.0], [1.0]]))
    >>> Z = lift(np.array([[0.0], [1.0]]))
    >>> np.allclose(Z @ Z.T, gf.kernels.Gaussian()(np.array([[0.0], [1.0]])))
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        centers: Array,
        *,
        memory_budget: int | None = None,
        whitening: SpectralWhitening | None = None,
    ):
        self._matrix = KernelMatrix(kernel, centers, memory_budget=memory_budget)
        self.whitening = SpectralWhitening.of(self._matrix) if whitening is None else whitening
        fitting = self._matrix.memory_budget // (64 * max(1, self.whitening.size))
        self.block_rows = max(1, min(BLOCK_ROWS, fitting))

    @property
    def rank(self) -> int:
        return self.whitening.rank

    @property
    def centers(self) -> Array:
        return np.asarray(self._matrix.centers)

    def block(self, X: Array) -> Array:
        """z of finite states, of shape (n, r), all at once."""
        points = Points(X.astype(self.centers.dtype, copy=False))
        kernel_rows = self._matrix.with_points(points).wide_block(slice(0, len(X)))
        return self.whitening.features(np.ascontiguousarray(kernel_rows)).T

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """z of states in blocks that fit the memory budget."""
        for start in range(0, len(X), self.block_rows):
            rows = slice(start, min(len(X), start + self.block_rows))
            yield rows, self.block(X[rows])

    def parameter_gradients(self, X: Array | None, weights: Array) -> dict[str, Array]:
        """Derivatives of Σᵢⱼ weightsᵢⱼ k(xᵢ, cⱼ) in the kernel's parameters by name; of k(cᵢ, cⱼ) without states."""
        matrix = self._matrix
        if X is not None:
            matrix = matrix.with_points(Points(X.astype(self.centers.dtype, copy=False)))
        given = np.ascontiguousarray(weights, dtype=self.centers.dtype)
        found = matrix.row_gradients(slice(None), given, wanted=("parameters",)).parameters
        return {name: value.detach().cpu().numpy().astype(np.float64) for name, value in found.items()}

    def __call__(self, X: Array) -> Array:
        out = np.empty((len(X), self.rank))
        for rows, Z in self.blocks(X):
            out[rows] = Z
        return out


def regressor_count(rank: int, inputs: int, form: str) -> int:
    """How many numbers `regressors` makes of so many features and inputs."""
    return rank + inputs + (rank * inputs if form == "bilinear" else 0)


def regressors(Z: Array, U: Array, form: str) -> Array:
    """What the next features are linear in: z and u, and for the bilinear form uⱼz for each input."""
    parts = [Z, np.asarray(U, dtype=np.float64)]
    if form == "bilinear":
        parts += [U[:, j : j + 1] * Z for j in range(U.shape[1])]
    return np.hstack(parts)


def check_input_form(form: Any) -> str:
    if form not in INPUT_FORMS:
        raise ValueError(f"input_form must be 'affine' or 'bilinear', got {form!r}")
    return str(form)
