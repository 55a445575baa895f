"""EigenPro 2: preconditioned stochastic gradients for centers that are the points."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.matrix import KernelMatrix

from .batches import Batches, batch_size, dense, reach
from .eigenfunctions import Eigenfunctions, function_count, sample_size

STEP = 1.5  # in units of 1 / curvature; below 2 every step brings f nearer to the interpolant


class Interpolation:
    """Descents to (K + ridge·I) α = Y for the n × n matrix K = k(X, X), for any Y.

    For a batch B with residuals g = f(B) - Y[B] a step moves f by -η P k(·, B) g, which is α[B] -= η g and a correction
    on the sample S that P is made from. The step η of each batch comes from its own curvature, so that f comes nearer
    to the interpolant in the norm of P⁻¹ with every step, whatever the sample was. The ridge is a kernel of its own,
    that of points with themselves, added to k.
    """

    def __init__(
        self,
        K: KernelMatrix,
        *,
        ridge: float = 0.0,
        sample: int | None = None,
        functions: int | None = None,
        batch: int | None = None,
        seed: int = 0,
    ):
        n = K.shape[0]
        self.K, self.ridge = K, ridge
        random = np.random.default_rng(seed)
        self.sample = np.sort(random.choice(n, min(n, sample or sample_size(n)), replace=False))
        count = functions or function_count(len(self.sample))
        among = K.rows(self.sample).with_centers()
        self.functions = Eigenfunctions.of(among, count=count, reach=reach(n), ridge=ridge, seed=seed)
        self.batches = Batches(K, batch or batch_size(self.functions, n), seed)
        self._steps: dict[int, float] = {}

    def epoch(self, alpha: Tensor, Y: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """One step from every batch, on α in place.

        Returns the sums of (f - Y + ridge·α)² by output, and the matrices of products of f - Y with itself and of α
        with f, each batch as it was met.
        """
        K, functions = self.K, self.functions
        on_sample = torch.from_numpy(self.sample).to(alpha.device)
        squares = torch.zeros_like(Y[0])
        errors, norms = (torch.zeros_like(Y[0, :, None] * Y[:1]) for _ in range(2))
        for batch in self.batches.order(number):
            rows, here = self.batches.index(batch).to(alpha.device), self.batches.matrix(batch)
            f = torch.as_tensor(here @ alpha.to(K.dtype)).double()
            error = f - Y[rows]
            gap = error + self.ridge * alpha[rows]
            squares += gap.square().sum(0)
            errors += error.T @ error
            norms += alpha[rows].T @ f
            seen = torch.as_tensor(functions.sample.with_centers(here.with_centers()) @ gap.to(K.dtype)).double()
            if self.ridge:
                shared, there = self._shared(batch)
                seen[there] += self.ridge * gap[shared]
            step = self._step(batch, here)
            alpha[rows] -= step * gap
            alpha[on_sample] += step * functions.excess(functions.U.T @ seen)
        return squares, errors, norms

    def _shared(self, batch: int) -> tuple[Tensor, Tensor]:
        """Where the rows of a batch that are in the sample stand in the one and in the other."""
        _, here, there = np.intersect1d(self.batches.rows[batch], self.sample, return_indices=True)
        return torch.from_numpy(here), torch.from_numpy(there)

    def _step(self, batch: int, rows: KernelMatrix) -> float:
        if batch not in self._steps:
            block, seen = dense(rows.with_centers()), dense(rows.with_centers(self.functions.sample))
            if self.ridge:
                here, there = self._shared(batch)
                block.diagonal().add_(self.ridge)
                seen[here, there] += self.ridge
            curvature = self.functions.curvature(block, self.functions.at(seen))
            self._steps[batch] = STEP / curvature if curvature > 0 else 0.0
        return self._steps[batch]
