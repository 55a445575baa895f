"""How good a kernel is for rows that it was not tuned on, with the best of a few noises."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.solvers import LeastSquares

from .folds import Folds
from .full import held_out_errors
from .rows import Data, noise_of
from .stages import LEAST_NOISE
from .tuner import Tuned

FOLDS = 3  # where no rows are held out


class Judged(NamedTuple):
    """A tuned kernel, the step that found it, its error over that of a constant, and the noise that has it."""

    tuned: Tuned
    step: int
    error: float
    noise: float


class Judge:
    """Errors on rows that are held out, or of a few folds.

    Parameters
    ----------
    data : Data
    kept : array of ints
        The rows that are fitted, each of which is a center.
    held : array of ints or None
        The rows that are predicted, or None for folds of those that are kept.
    factors : tuple of floats
        The multiples of the noise that was found which are tried.
    memory_budget : int
    """

    def __init__(self, data: Data, kept: Array, held: Array | None, factors: tuple[float, ...], memory_budget: int):
        self.factors, self.memory_budget = factors, memory_budget
        self._problem: LeastSquares | None = None  # whose points others share
        self.honest = held is not None
        if held is None:
            folds = min(FOLDS, len(kept))
            self.data = data.at(kept)
            self.folds = Folds(np.arange(len(kept)) * folds // len(kept), tuple(range(folds)))
            self.criterion = f"error of {folds} folds"
        else:
            self.data = data.at(np.concatenate([kept, held]))
            self.folds = Folds(np.repeat(np.arange(2), [len(kept), len(held)]), (1,))
            self.criterion = f"error on {len(held)} held-out rows"

    def __call__(self, tuned: Tuned, step: int) -> Judged:
        noise = noise_of(tuned.problem)
        noises = np.maximum(noise * np.array(self.factors), LEAST_NOISE)
        kernel = tuned.problem.K.kernel
        if self._problem is None:
            self._problem = self.data.problem(kernel, None, noise, self.memory_budget)
        problem = self._problem.at(kernel=kernel)
        errors = held_out_errors(problem, noises / problem.total_weight, self.folds)
        best = int(np.argmin(errors))
        constant = float(np.mean(problem.value_at_zero)) or 1.0
        return Judged(tuned, step, float(errors[best]) / constant, float(noises[best]))
