"""How good a kernel is for rows that it was not tuned on, with the best of a few noises."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.solvers import LeastSquares

from .folds import Folds
from .full import HeldOut
from .rows import Data, noise_of
from .stages import LEAST_NOISE
from .tuner import Tuned

FOLDS = 3  # where no rows are held out
FAR = 1.2  # times the lowest error so far: more than another noise or a few more rows are expected to make good


class Judged(NamedTuple):
    """A tuned kernel, the step that found it, its error over that of a constant, and the noise that has it.

    The noise is that of the rows which are fitted to predict the others, not of all of them.
    """

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
        The multiples of the noise that was found which are tried besides it.
    memory_budget : int
    """

    def __init__(self, data: Data, kept: Array, held: Array | None, factors: tuple[float, ...], memory_budget: int):
        self.factors, self.memory_budget = factors, memory_budget
        self._problem: LeastSquares | None = None  # whose points others share
        self._lowest = float("inf")
        self.honest = held is not None
        self._fitted: float  # the share of the weight that is fitted to predict the rest
        if held is None:
            folds = min(FOLDS, len(kept))
            self.data = data.at(kept)
            self.folds = Folds(np.arange(len(kept)) * folds // len(kept), tuple(range(folds)))
            self._fitted = 1 - 1 / folds
            self.criterion = f"error of {folds} folds"
        else:
            self.data = data.at(np.concatenate([kept, held]))
            self.folds = Folds(np.repeat(np.arange(2), [len(kept), len(held)]), (1,))
            weights = self.data.weights
            self._fitted = (
                len(kept) / len(self.data.Y) if weights is None else float(weights[: len(kept)].sum() / weights.sum())
            )
            self.criterion = f"error on {len(held)} held-out rows"

    def __call__(self, tuned: Tuned, step: int, noise: float) -> Judged:
        error, noise = self._best(self._errors(tuned), noise)
        self._lowest = min(self._lowest, error)
        return Judged(tuned, step, error, noise)

    def _errors(self, tuned: Tuned) -> Callable[[float], float]:
        """The error of a kernel at any noise, over that of a constant."""
        kernel = tuned.problem.K.kernel
        if self._problem is None:
            self._problem = self.data.problem(kernel, None, noise_of(tuned.problem), self.memory_budget)
        problem = self._problem.at(kernel=kernel)
        held_out, constant = HeldOut(problem, self.folds), float(np.mean(problem.value_at_zero)) or 1.0
        return lambda noise: held_out.error(noise / (self._fitted * problem.total_weight)) / constant

    def _best(self, error_at: Callable[[float], float], found: float) -> tuple[float, float]:
        """The lowest error and its noise: larger ones are tried while errors fall or, if none falls, smaller ones."""
        best = error_at(max(found, LEAST_NOISE)), max(found, LEAST_NOISE)
        if best[0] > FAR * self._lowest:
            return best
        larger = sorted(factor for factor in self.factors if factor > 1)
        smaller = sorted((factor for factor in self.factors if factor < 1), reverse=True)
        for factors in (larger, smaller):
            before = best
            for factor in factors:
                noise = max(factor * found, LEAST_NOISE)
                error = error_at(noise)
                if not error < best[0]:
                    break
                best = error, noise
            if best < before:
                break
        return best
