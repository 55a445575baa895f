"""The minibootstrap: a classifier of few positives against batches of negatives, of which only hard ones are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas

from gyrfalcon.kernels import Gaussian
from gyrfalcon.linalg.triangles import mirror
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.moments import Moments, Sums, Whitening

Array = np.ndarray[Any, Any]

EASY = -0.9  # negatives that score below are dropped
LEAST_KEPT = 0.25  # of a batch: so many negatives stay, however easy, and as many as there are positives
HARD = -0.7  # of the next batch, negatives that score above are added
CENTERS_PER_ROOT = 5.0  # centers are at most so many times the square root of the number of negatives


@dataclass(frozen=True)
class Settings:
    """How a classifier of regions is trained.

    Attributes
    ----------
    n_centers : int
    length_scale, penalty : float
    batch_size, n_batches : int
    """

    n_centers: int
    length_scale: float
    penalty: float
    batch_size: int
    n_batches: int

    @property
    def total(self) -> int:
        """How many negatives all batches hold."""
        return self.batch_size * self.n_batches


class Whitened:
    """Rows in whitened features of some centers, in which every classifier with these centers is linear.

    Parameters
    ----------
    settings : Settings
    X : array of shape (n, d)
    centers : array of int
        Which rows are centers.
    """

    def __init__(self, settings: Settings, X: Array, centers: Array):
        self.kernel = Gaussian(settings.length_scale)
        self.centers = X[centers]
        K = KernelMatrix(self.kernel, X, self.centers)
        entries = torch.float32 if X.dtype == np.float32 else torch.float64  # as of predictions
        self.whitening = Whitening.of(K, entries)
        self.inverse_gram = self.whitening.inverse_gram()
        self._first: tuple[Array, Moments] | None = None
        self._last: tuple[Array, Array] | None = None  # the rows that were summed last, and their second moments
        self.Z = self.whitening.features(np.ascontiguousarray(K.to_dense(), dtype=np.float64))

    def moments(self, rows: Array, targets: Array) -> Moments:
        """Those of some rows with targets of shape (n, t)."""
        Z = np.asfortranarray(self.Z[:, rows])
        if self._last is None or not np.array_equal(self._last[0], rows):
            second = blas.dsyrk(1.0, Z) if len(rows) else np.zeros((len(Z), len(Z)), order="F")
            mirror(second, from_lower=False)
            self._last = rows, second
        sums = Sums.of(np.ones(len(rows)), Z, targets)
        return Moments(self.whitening, self._last[1], sums, len(rows), np.zeros(targets.shape[1]))

    def negative(self, rows: Array) -> Moments:
        """The moments of some rows with targets of -1."""
        return self.moments(rows, np.full((len(rows), 1), -1.0))

    def first_negative(self, rows: Array) -> Moments:
        """The same for the first batch of a classifier, which is nearly that of the classifier before it."""
        if self._first is not None:
            before, known = self._first
            more, fewer = np.setdiff1d(rows, before), np.setdiff1d(before, rows)
            if 2 * (len(more) + len(fewer)) < len(rows):
                return known + self.negative(more) - self.negative(fewer)
        self._first = rows, self.negative(rows)
        return self._first[1]

    def solve(self, moments: Moments, penalty: float) -> Solution:
        """Least squares with an intercept."""
        return Solution(*moments.solve(penalty, inverse_gram=self.inverse_gram)[:2])

    def scores(self, rows: Array, solution: Solution) -> Array:
        """The first output at some rows."""
        return np.asarray(self.whitening.coordinates(solution.beta[:, :1])[:, 0] @ self.Z[:, rows] + solution.offset[0])

    def refiner(self, rows: Array, codes: Array, penalty: float) -> Solution:
        """How boxes are moved and stretched: regularized least squares of the codes of some rows, of shape (n, 4).

        It minimizes a sum, not a mean, of squared errors plus penalty·‖f‖². Whitening the targets first, as R-CNN does,
        would change nothing: the solution is linear in them.
        """
        return self.solve(self.moments(rows, codes), penalty / len(rows))

    def predictor(self, solutions: Sequence[Solution]) -> Predictor:
        """The outputs of all solutions as one function, so that the kernel is evaluated once for all of them."""
        beta = np.concatenate([solution.beta for solution in solutions], axis=1)
        return Predictor(self.kernel, self.centers, beta, np.concatenate([solution.offset for solution in solutions]))


@dataclass(frozen=True)
class Solution:
    """Coefficients at the centers, of shape (m, t), and intercepts of shape (t,)."""

    beta: Array
    offset: Array


def minibootstrap(space: Whitened, positives: Array, negatives: Array, settings: Settings) -> Solution:
    """The classifier of positives against negatives, near 1 for the former and -1 for the latter.

    It learns from all positives and the first batch of negatives and drops the easy ones. Of each further batch it adds
    those that are hard for the classifier so far, learns again, and drops what has become easy. Moments add up, so that
    learning again costs what the changes cost.

    Parameters
    ----------
    space : Whitened
    positives, negatives : arrays of int
        Rows of the space; negatives in the order in which batches are made of them.
    settings : Settings
    """
    size = settings.batch_size
    least = max(len(positives), int(LEAST_KEPT * size))
    batches = [negatives[start : start + size] for start in range(0, min(len(negatives), settings.total), size)]
    chosen = batches[0] if batches else np.zeros(0, dtype=np.int64)
    shown = space.moments(positives, np.ones((len(positives), 1)))
    moments = shown + space.first_negative(chosen)
    solution = space.solve(moments, settings.penalty)
    for place, batch in enumerate(batches[1:]):
        kept = chosen[_hard_enough(space, chosen, solution, least)]
        if 2 * len(kept) < len(chosen):
            moments = shown + space.negative(kept)
        elif len(kept) < len(chosen):
            moments = moments - space.negative(np.setdiff1d(chosen, kept, assume_unique=True))
        chosen = kept
        hard = batch[space.scores(batch, solution) > HARD]
        if len(hard) == 0 and place < len(batches) - 2:
            continue
        moments = moments + space.negative(hard)
        chosen = np.concatenate([chosen, hard])
        solution = space.solve(moments, settings.penalty)
    return solution


def _hard_enough(space: Whitened, chosen: Array, solution: Solution, least: int) -> Array:
    """Which negatives stay: those that are not easy, and the first easy ones, so that a number of negatives stays.

    Without any of them a classifier of hard negatives alone may take what was easy for positive.
    """
    easy = space.scores(chosen, solution) < EASY
    easy[np.flatnonzero(easy)[: max(0, least - int((~easy).sum()))]] = False
    return ~easy


def center_count(settings: Settings, rows: int) -> int:
    """How many centers so many rows are given: as many as full batches are worth, if there are as many rows."""
    return max(1, min(settings.n_centers, rows, round(CENTERS_PER_ROOT * float(np.sqrt(settings.total)))))
