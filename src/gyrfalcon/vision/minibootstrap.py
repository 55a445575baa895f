"""The minibootstrap: a classifier of few positives against batches of negatives, of which only hard ones are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from gyrfalcon.kernels import Gaussian
from gyrfalcon.linalg.triangles import mirror
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Sums, Whitening

Array = np.ndarray[Any, Any]

EASY = -0.9  # negatives that score below are dropped
LEAST_KEPT = 0.25  # of a batch: so many negatives stay, however easy, and as many as there are positives
HARD = -0.7  # of the next batch, negatives that score above are added
CENTERS_PER_ROOT = 5.0  # centers are at most so many times the square root of the number of rows


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
        self.whitening = Whitening.of(K)
        self.Z = self.whitening.features(np.ascontiguousarray(K.to_dense(), dtype=np.float64))

    def moments(self, rows: Array, targets: Array) -> Moments:
        """Those of some rows with targets of 1 and -1."""
        Z = np.asfortranarray(self.Z[:, rows])
        second = blas.dsyrk(1.0, Z) if len(rows) else np.zeros((len(Z), len(Z)), order="F")
        mirror(second, from_lower=False)
        sums = Sums.of(np.ones(len(rows)), Z, targets[:, None])
        return Moments(self.whitening, second, sums, len(rows))

    def scores(self, rows: Array, solution: tuple[Array, Array]) -> Array:
        """Of some rows with coefficients and an intercept."""
        return np.asarray(self.whitening.coordinates(solution[0])[:, 0] @ self.Z[:, rows] + solution[1][0])


def minibootstrap(space: Whitened, positives: Array, negatives: Array, settings: Settings) -> tuple[Array, float]:
    """Coefficients at the centers and the intercept of one classifier.

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
    moments = space.moments(positives, np.ones(len(positives))) + space.moments(chosen, -np.ones(len(chosen)))
    solution = _solve(moments, settings)
    for place, batch in enumerate(batches[1:]):
        moments, chosen = _without_easy(space, moments, chosen, solution, least)
        hard = batch[space.scores(batch, solution) > HARD]
        if len(hard) == 0 and place < len(batches) - 2:
            continue
        moments = moments + space.moments(hard, -np.ones(len(hard)))
        chosen = np.concatenate([chosen, hard])
        solution = _solve(moments, settings)
    return solution[0], float(solution[1][0])


def _solve(moments: Moments, settings: Settings) -> tuple[Array, Array]:
    beta, intercept, _ = moments.solve(settings.penalty)
    return beta, intercept


def _without_easy(
    space: Whitened, moments: Moments, chosen: Array, solution: tuple[Array, Array], least: int
) -> tuple[Moments, Array]:
    """Drop easy negatives, but for the first ones, so that a number of negatives stays.

    Without any of them a classifier of hard negatives alone may take what was easy for positive.
    """
    easy = space.scores(chosen, solution) < EASY
    spared = np.flatnonzero(easy)[: max(0, least - int((~easy).sum()))]
    easy[spared] = False
    if not easy.any():
        return moments, chosen
    gone = chosen[easy]
    return moments - space.moments(gone, -np.ones(len(gone))), chosen[~easy]


def center_count(settings: Settings, rows: int) -> int:
    """How many centers so many rows are worth."""
    return max(1, min(settings.n_centers, rows, round(CENTERS_PER_ROOT * float(np.sqrt(rows)))))


def ridge(X: Array, Y: Array, penalty: float) -> tuple[Array, Array]:
    """Weights of shape (d, t) and intercepts of regularized least squares: the refiners of boxes.

    They minimize a sum, not a mean, of squared errors plus penalty·‖w‖². Whitening the targets first, as R-CNN does,
    would change nothing: the solution is linear in them.
    """
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    mean, target = X.mean(0), Y.mean(0)
    centered = X - mean
    if len(X) < X.shape[1]:
        gram = centered @ centered.T
        np.fill_diagonal(gram, gram.diagonal() + penalty)
        weights = centered.T @ np.linalg.solve(gram, Y - target)
    else:
        gram = centered.T @ centered
        np.fill_diagonal(gram, gram.diagonal() + penalty)
        weights = np.linalg.solve(gram, centered.T @ (Y - target))
    return weights, target - mean @ weights
