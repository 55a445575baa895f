"""Models that learn from the same rows at once: one for each step size, with and without the rows held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy

from ..risk import Risk
from ..stopping import Split
from .spaces import Chunk, Space
from .steps import Schedule, Walked, walk

JUDGED = 2048  # rows whose predictions are made together
FAR = 1e30  # a coefficient beyond which a run has diverged

VOTES: dict[str, Callable[[Array, Array], Array]] = {
    "steps": lambda steps, count: steps,
    "uniform": lambda steps, count: np.ones_like(steps),
    "polynomial": lambda steps, count: count**3.0,  # early models do not linger
}


@dataclass
class Models:
    """Models, and sums of votes times models, of shape (size, fits, sizes of step, t), with their intercepts; sums of
    votes; steps made by each fit; and which models have not diverged."""

    W: Tensor
    total: Tensor
    intercepts: Tensor
    sums: Tensor
    votes: Array
    counts: Array
    alive: Array

    def arrays(self) -> dict[str, Array]:
        return {name: as_numpy(value).copy() for name, value in vars(self).items()}

    @classmethod
    def of(cls, arrays: dict[str, Array], device: torch.device) -> Models:
        W, total, intercepts, sums = (
            torch.from_numpy(arrays[name].copy()).to(device) for name in ("W", "total", "intercepts", "sums")
        )
        votes, counts, alive = (arrays[name].copy() for name in ("votes", "counts", "alive"))
        return cls(W, total, intercepts, sums, votes, counts, alive)


class Runs:
    """For each part that is held out, a fit to all other rows, and a last fit to all rows; each with every step size.

    All visit the rows in the same order, so that entries of K are made once for all of them.
    """

    def __init__(
        self,
        problem: Risk,
        space: Space,
        split: Split,
        steps: Array,
        decays: Array,
        batch: int,
        averaging: str | None,
        seed: int,
    ):
        self.problem, self.space, self.split, self.seed = problem, space, split, seed
        self.steps, self.decays, self.batch, self.averaging = steps, decays, batch, averaging
        weights = np.ones(len(problem.Y)) if problem.weights is None else as_numpy(problem.weights.double())[:, 0]
        self.row_weights = weights
        self.learned = np.stack([weights * (split.labels != part) for part in (*split.held, -1)])
        self.learned *= np.array([(row > 0).sum() / row.sum() for row in self.learned])[:, None]
        self.rate = space.peak if problem.intercept else 0.0
        self.rows = batch if batch >= space.rows else space.rows // batch * batch
        fits, sizes, t = len(self.learned), len(steps), problem.Y.shape[1]
        like: dict[str, Any] = {"dtype": torch.float64, "device": problem.K.device}
        self.state = Models(
            torch.zeros(space.size, fits, sizes, t, **like),
            torch.zeros(space.size if averaging else 0, fits, sizes, t, **like),
            torch.zeros(fits, sizes, t, **like),
            torch.zeros(fits, sizes, t, **like),
            np.zeros((fits, sizes)),
            np.zeros(fits, dtype=np.int64),
            np.ones((fits, sizes), dtype=bool),
        )

    def begin(self, beta: Tensor, intercept: Tensor) -> None:
        self.state.W += self.space.coordinates(beta)[:, None, None]
        self.state.intercepts += intercept

    def epoch(self, number: int) -> Array:
        """Take all models through all rows; the objectives of the last fit, each row's loss as it was met, of shape
        (sizes, t), or (sizes, 1) for a loss that is no sum over outputs."""
        problem, state = self.problem, self.state
        n, t = problem.Y.shape
        fits, sizes = state.alive.shape
        losses: Any = 0.0
        norms = torch.zeros_like(state.intercepts[-1])
        W, total = state.W.flatten(1), state.total.flatten(1)
        for rows in self._visits(number):
            chunk, Y = self.space.chunk(rows), problem.Y[torch.from_numpy(rows).to(problem.Y.device)].double()
            values = chunk.values(W)
            if problem.penalty:
                norms += chunk.squared_norms(W, values).view(fits, sizes, t)[-1] / n
            schedule = self._schedule(rows)
            walked = walk(
                problem.loss,
                values.T.reshape(fits * sizes, t, len(rows)),
                chunk.gram if len(rows) > self.batch else None,
                Y,
                schedule,
                problem.penalty,
                self.rate,
                state.intercepts.view(fits * sizes, t),
                state.sums.view(fits * sizes, t),
            )
            met = walked.values[-sizes:].transpose(1, 2).reshape(-1, t)
            losses = losses + self._summed(rows, met, Y)
            self._move(chunk, walked, W, total)
        penalized = as_numpy(norms if losses.shape[1] == t else norms.sum(1, keepdim=True))
        objectives = losses / self.row_weights.sum() + problem.penalty * penalized
        return np.where(state.alive[-1][:, None], objectives, np.inf)

    def _visits(self, epoch: int) -> Iterator[Array]:
        """Rows in an order of the seed and the epoch alone; those of a source stay in the window they are read in."""
        random, windows = np.random.default_rng([self.seed, epoch]), self.problem.K.windows(self.rows)
        for place in random.permutation(len(windows)):
            window = windows[place]
            order = window.start + random.permutation(window.stop - window.start)
            yield from (order[first : first + self.rows] for first in range(0, len(order), self.rows))

    def _schedule(self, rows: Array) -> Schedule:
        state = self.state
        fits, sizes = state.alive.shape
        weights = self.learned[:, rows]
        starts = np.arange(0, len(rows), self.batch)
        making = np.maximum.reduceat(weights, starts, axis=1) > 0
        count = (state.counts[:, None] + np.cumsum(making, axis=1))[:, None]
        state.counts += making.sum(1)
        steps = self.steps[:, None] * np.maximum(count, 1.0) ** -self.decays[:, None]
        steps = steps * (making[:, None] & state.alive[:, :, None])
        votes = VOTES[self.averaging](steps, count * np.ones_like(steps)) if self.averaging else np.zeros_like(steps)
        votes = votes * (steps > 0)
        state.votes += votes.sum(2)
        repeated = np.repeat(weights, sizes, axis=0)
        return Schedule(repeated, steps.reshape(fits * sizes, -1), votes.reshape(fits * sizes, -1), self.batch)

    def _move(self, chunk: Chunk, walked: Walked, W: Tensor, total: Tensor) -> None:
        t = walked.values.shape[1]
        shrinks, shares = (part.repeat_interleave(t) for part in (walked.shrinks, walked.shares))
        if len(total):
            total += shares * W
            chunk.add(total, walked.averages.reshape(-1, walked.averages.shape[2]).T)
        if self.problem.penalty:
            W *= shrinks
        chunk.add(W, walked.coefficients.reshape(-1, walked.coefficients.shape[2]).T)
        far = ~(walked.coefficients.abs() < FAR).flatten(1).all(1)
        if bool(far.any()):
            state = self.state
            lost = far.view(state.alive.shape)
            state.alive &= ~as_numpy(lost)
            for part in (state.W, state.total):
                part[:, lost] = 0.0
            for part in (state.intercepts, state.sums):
                part[lost] = 0.0

    def models(self, fit: int) -> tuple[Tensor, Tensor]:
        """Of one fit, all step sizes: the averages or the last ones, of shapes (size, sizes, t) and (sizes, t)."""
        state = self.state
        made = torch.from_numpy(state.votes[fit]).to(state.W)[:, None]
        if not self.averaging or not bool(made.any()):
            return state.W[:, fit], state.intercepts[fit]
        made = made.clamp(min=torch.finfo(torch.float64).tiny)
        return state.total[:, fit] / made, state.sums[fit] / made

    def errors(self) -> Array:
        """The mean loss on rows that are held out, by step size."""
        held = [(fit, np.flatnonzero(self.split.labels == part)) for fit, part in enumerate(self.split.held)]
        total = sum(float(self.row_weights[rows].sum()) for _, rows in held)
        found = sum((self._losses(fit, rows).sum(1) for fit, rows in held), np.zeros(len(self.steps))) / total
        return np.where(self.state.alive.all(0), found, np.inf)

    def objectives(self) -> Array:
        """The mean loss of the last fit on all rows, as `epoch` gives it."""
        return np.asarray(self._losses(-1, np.arange(len(self.row_weights))) / self.row_weights.sum())

    def _losses(self, fit: int, rows: Array) -> Array:
        problem, (W, intercepts) = self.problem, self.models(fit)
        sizes, t = intercepts.shape
        losses: Any = 0.0
        for first in range(0, len(rows), JUDGED):
            here = rows[first : first + JUDGED]
            Y = problem.Y[torch.from_numpy(here).to(problem.Y.device)].double()
            F = intercepts.expand(len(here), sizes, t)
            if bool(W.any()):
                F = F + self.space.chunk(here).values(W.reshape(len(W), -1)).view(len(here), sizes, t)
            losses = losses + self._summed(here, F.transpose(0, 1).reshape(-1, t), Y)
        return np.asarray(losses)

    def _summed(self, rows: Array, F: Tensor, Y: Tensor) -> Array:
        """Weighted sums over rows of the losses of predictions, which follow each other by size of step."""
        sizes = len(self.steps)
        values = as_numpy(self.problem.loss.by_output(F, Y.repeat(sizes, 1)))
        return np.asarray(self.row_weights[rows] @ values.reshape(sizes, len(rows), -1))

    def solution(self, size: int) -> tuple[Tensor, Tensor]:
        """Coefficients and intercept of the last fit with that step size."""
        W, intercepts = self.models(-1)
        return self.space.coefficients(W[:, size].contiguous()).cpu().clone(), intercepts[size].cpu().clone()
