"""EigenPro 3: projected and preconditioned stochastic gradients for centers of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_numpy
from gyrfalcon.linalg.eigensystem import top_eigensystem
from gyrfalcon.matrix import KernelMatrix

from .batches import dense
from .eigenfunctions import ROUGHLY, Eigenfunctions, function_count, sample_size
from .projection import Projection

LOOKED_AT = 64  # rows that tell how large the projected kernel is at a point


class Network:
    """f = k(·, C) β + b, and the steps that batches of rows call for.

    The gradient of a batch B with residuals g is k(·, B) g. It is projected onto the span of the centers first and
    preconditioned there, by functions of that span: so the descent ends where the gradient has no part in the span,
    which is the least-squares solution. (To precondition first and project then, as in the paper's algorithms, is to
    minimize a sum of squares with other weights whenever the residuals cannot vanish.)

    Parameters
    ----------
    K : KernelMatrix
        Of rows like those to come, for the spectrum.
    project : Projection
    roots : array, optional
        Roots of their weights.
    reach : float
        How many rows are to come, or to come soon.
    penalty : float
        Of ‖f‖², for the spectrum; steps take it from `ridge`, the part of n·penalty that a batch has to bear.
    intercept : bool
    """

    def __init__(
        self,
        K: KernelMatrix,
        project: Projection,
        roots: np.ndarray[Any, Any] | None = None,
        *,
        reach: float,
        penalty: float = 0.0,
        intercept: bool = False,
        sample: int | None = None,
        functions: int | None = None,
        seed: int = 0,
    ):
        p = K.shape[1]
        self.K, self.project, self.ridge = K, project, 0.0
        self.sample = np.sort(np.random.default_rng(seed).choice(p, min(p, sample or sample_size(p)), replace=False))
        sample_centers = K.with_centers(index=self.sample)
        self.constant = float(K.prior_diagonal().mean()) if intercept else 0.0
        self.functions = Eigenfunctions.of(
            sample_centers.square,
            sample_centers,
            roots,
            count=functions or function_count(len(self.sample)),
            reach=reach,
            own=self._own(),
            penalty=penalty,
            constant=self.constant,
            seed=seed,
        )
        self._on_sample = torch.from_numpy(self.sample).to(K.device)
        U = self.functions.U.to(K.dtype)
        self._at_centers = torch.as_tensor(K.square.with_centers(index=self.sample) @ U).double()

    def _own(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Some rows of X, and what the projection onto the span of the centers leaves of k(x, x) at them."""
        rows = np.unique(np.linspace(0, self.K.shape[0] - 1, LOOKED_AT).astype(int))
        block = dense(self.K.rows(rows)).double()
        return rows, as_numpy((block * self.project(block.T.contiguous()).T).sum(1))

    def block(self, rows: KernelMatrix) -> Any:
        """The rows of K of a batch, written down if that fits, since two products are made with them."""
        fits = 4 * rows.shape[0] * rows.shape[1] * rows.dtype.itemsize <= rows.memory_budget
        return dense(rows) if fits else rows

    def predict(self, block: Any, beta: Tensor, intercept: Tensor) -> Tensor:
        f: Tensor = (block @ beta.to(self.K.dtype)).double() + intercept
        return f

    def gradient(self, block: Any, gaps: Tensor) -> tuple[Tensor, Tensor]:
        """Σ k(·, x) g at the centers, and Σ g."""
        return (gaps.T.to(self.K.dtype) @ block).T.double(), gaps.sum(0, keepdim=True)

    def direction(self, values: Tensor, slope: Tensor, beta: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The gradient with these values at the centers and this slope in b, and that of the ridge at β, projected and
        preconditioned: coefficients and intercept."""
        functions = self.functions
        theta = self.project(values, beta, self.ridge)
        # Of θ itself and not of `values`, which are the same only if the projection is exact: else P would take away
        # more than there is.
        inner = self._at_centers.T @ theta + functions.constants.T @ slope
        theta[self._on_sample] -= functions.excess(inner)
        return theta, self.constant * slope - functions.excess_constant(inner)

    def curvature(self, block: Any, roots: Tensor | None) -> float:
        """The largest eigenvalue of the preconditioned kernel between the rows of a batch, and the ridge."""
        return max(0.0, float(top_eigensystem(_Between(self, block, roots), 1, **ROUGHLY)[0][0])) + self.ridge


@dataclass(frozen=True)
class _Between:
    """From residuals of a batch to what a step of length one changes at it, in the order of both."""

    network: Network
    block: Any
    roots: Tensor | None
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.block.shape[0], self.block.shape[0]

    def __matmul__(self, columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        gaps = torch.from_numpy(columns).to(self.network.K.device)
        roots = 1.0 if self.roots is None else self.roots
        step = self.network.direction(*self.network.gradient(self.block, roots * gaps))
        return as_numpy(roots * self.network.predict(self.block, *step))
