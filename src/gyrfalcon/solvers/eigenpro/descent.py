"""Descents of a kernel network over rows that are visited again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy

from ..problem import LeastSquares
from .batches import Batches, batch_size, reach
from .eigenfunctions import sample_size
from .network import Network
from .projection import Projection

STEP = 1 / 3  # in units of 1 / curvature, as theory has it for gradients that are corrected by remembered ones

LEAST_BATCHES, LEAST_ROWS = 3, 512  # whose curvature is taken, at least: small batches differ much from each other


@dataclass
class Position:
    """The model; the residual of every row when it was last met, times the root of its weight; and the gradient that
    these residuals make: its values at the centers and its slope in the intercept."""

    beta: Tensor
    intercept: Tensor
    gaps: Tensor
    values: Tensor
    slope: Tensor

    def arrays(self) -> dict[str, Array]:
        return {name: as_numpy(value).copy() for name, value in vars(self).items()}

    @classmethod
    def of(cls, arrays: dict[str, Array], device: torch.device) -> Position:
        return cls(**{name: torch.from_numpy(arrays[name].copy()).to(device) for name in cls.__dataclass_fields__})


class Descent:
    """Steps to the least-squares solution, although residuals do not vanish there.

    Of the problem that it is made for, K, weights, penalty and intercept count; its targets may change.

    A batch B is asked for its gradient h, and what it said the last time is taken back: h(B) - old h(B) + Σ old h / c.
    That is the gradient on average, the more exactly the less it changes (SAGA), so steps need not shrink. Residuals
    are all that needs remembering, one number a row and output.
    """

    def __init__(
        self,
        problem: LeastSquares,
        project: Projection,
        *,
        sample: int | None = None,
        functions: int | None = None,
        batch: int | None = None,
        seed: int = 0,
    ):
        K, n = problem.K, problem.K.shape[0]
        self.roots = None
        if problem.weights is not None:
            self.roots = (problem.weights.double() * (n / problem.total_weight)).sqrt()
        rows = np.sort(np.random.default_rng([seed, 1]).choice(n, sample_size(n), replace=False))
        self.network = Network(
            K.rows(rows),
            project,
            None if self.roots is None else as_numpy(self.roots)[rows, 0],
            reach=reach(n),
            penalty=problem.penalty,
            intercept=problem.intercept,
            sample=sample,
            functions=functions,
            seed=seed,
        )
        size = max(batch_size(self.network.functions, n), K.shape[1] // 4)  # that projections do not outweigh the rest
        self.batches = Batches(K, batch or size, seed)
        self.network.ridge = problem.penalty * n / len(self.batches)
        self.step = self._step()

    def _step(self) -> float:
        """From the steepest of some batches: they differ little, and the step is far from being too long."""
        steepest = 0.0
        rows = max(1, len(self.batches.rows[0]))
        count = min(len(self.batches), max(LEAST_BATCHES, -(-LEAST_ROWS // rows)))
        for batch in np.unique(np.linspace(0, len(self.batches) - 1, count).astype(int)).tolist():
            _, block, roots = self._batch(batch)
            steepest = max(steepest, self.network.curvature(block, roots))
        return STEP / steepest if steepest > 0 else 0.0

    def begin(self, problem: LeastSquares, start: Tensor | None) -> Position:
        """The state at the given coefficients: one pass over X."""
        K, Y = problem.K, problem.Y
        like: dict[str, Any] = {"dtype": torch.float64, "device": K.device}
        p, (n, t) = K.shape[1], Y.shape
        beta = torch.zeros(p, t, **like) if start is None else start.detach().to(**like).clone()
        intercept = problem.mean
        if start is not None:  # the best one for it
            intercept = problem.finish(as_numpy(beta), problem.sides[1])[1]
        intercept = intercept.to(**like)[None].clone()
        state = Position(beta, intercept, *(torch.zeros(rows, t, **like) for rows in (n, p, 1)))
        for batch in range(len(self.batches)):
            self._meet(problem.Y, state, batch)
        return state

    def epoch(self, Y: Tensor, state: Position, number: int) -> None:
        """One step from every batch."""
        count = len(self.batches)
        for batch in self.batches.order(number):
            values, slope = state.values / count, state.slope / count
            new_values, new_slope = self._meet(Y, state, batch)
            theta, offset = self.network.direction(values + new_values, slope + new_slope, state.beta)
            state.beta -= self.step * theta
            state.intercept -= self.step * offset

    def _batch(self, batch: int) -> tuple[Tensor, Any, Tensor | None]:
        rows = self.batches.index(batch).to(self.batches.K.device)
        block = self.network.block(self.batches.matrix(batch))
        return rows, block, None if self.roots is None else self.roots[rows]

    def _meet(self, Y: Tensor, state: Position, batch: int) -> tuple[Tensor, Tensor]:
        """Bring what is remembered of a batch up to date, and return by how much its gradient changed."""
        rows, block, roots = self._batch(batch)
        gaps = self.network.predict(block, state.beta, state.intercept) - Y[rows].double()
        gaps = gaps if roots is None else roots * gaps
        change = gaps - state.gaps[rows]
        values, slope = self.network.gradient(block, change if roots is None else roots * change)
        state.gaps[rows] = gaps
        state.values += values
        state.slope += slope
        return values, slope
