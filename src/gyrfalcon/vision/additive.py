"""Nyström classifiers of cells that learn while frames arrive, and forget a frame to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.kernels import Gaussian
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.moments import ExactMoments, Moments, Whitening

from .keys import balanced

Array = np.ndarray[Any, Any]

RECENTERINGS = (1, 4, 16, 64)  # after so many frames the centers are chosen again; the last choice is for good
HISTORY = RECENTERINGS[-1]  # frames whose rows are kept, which can be forgotten


@dataclass(frozen=True)
class LabeledRows:
    """Rows of one frame.

    Attributes
    ----------
    X : array of shape (n, d)
    shares : array of shape (n, classes)
        How much of each row is of each class that was known when the frame came, from 0 to 1.
    keys : array of uint64 of shape (n,)
        By which centers are chosen.
    """

    X: Array
    shares: Array
    keys: Array

    @property
    def labels(self) -> Array:
        """The class of each row, from 0, of which there is most."""
        return np.asarray(self.shares.argmax(1))


class AdditiveClassifier:
    """One-vs-rest least squares on k(·, centers), from sums to which each frame adds its part.

    With whitened features z of the centers it keeps Σ z zᵀ and Σ z yᵀ in fixed point. Training is one factorization of
    an m × m matrix, however many frames there were. A new class is a new column and forgetting a subtraction. Centers
    are chosen from the rows of all frames when the first, the 4th, the 16th and the 64th frame arrive, and the sums are
    then made again; the rows of the last 64 frames are kept for this.

    Parameters
    ----------
    n_centers : int
    length_scale : float
        Of the Gaussian kernel.
    penalty : float
    """

    def __init__(self, n_centers: int, length_scale: float, penalty: float):
        self.n_centers, self.penalty = n_centers, penalty
        self.kernel = Gaussian(length_scale)
        self.outputs = 0
        self.arrived = 0
        self.frames: dict[int, LabeledRows] = {}
        self.centers: Array | None = None
        self.sums: ExactMoments | None = None

    @property
    def count(self) -> int:
        """How many rows were learned from."""
        return 0 if self.sums is None else self.sums.count

    def grow(self, outputs: int) -> None:
        """Have at least so many classes."""
        while self.outputs < outputs:
            self.sums = None if self.sums is None else self.sums.with_output(-1.0)
            self.outputs += 1

    def add(self, frame: int, rows: LabeledRows) -> None:
        """Learn from the rows of a frame."""
        self.add_all({frame: rows})

    def add_all(self, frames: dict[int, LabeledRows]) -> None:
        """Learn from the rows of several frames at once, with centers from all of them."""
        self.grow(max((rows.shares.shape[1] for rows in frames.values()), default=0))
        before = self.arrived
        self.arrived += len(frames)
        self.frames |= frames
        if any(before < step <= self.arrived for step in RECENTERINGS):
            self._choose_centers()
        else:
            for rows in frames.values():
                self._accumulate(rows)
        for old in list(self.frames)[:-HISTORY]:
            del self.frames[old]

    def remove(self, frame: int) -> None:
        """Forget the rows of a frame: the sums are what they would be if it had never come."""
        rows = self.frames.pop(frame)
        if self.sums is not None:
            self.sums = self.sums.minus(self._moments(rows))

    def _choose_centers(self) -> None:
        """Choose centers from the rows of all frames, as many of each label as there are, and sum up again."""
        joined = [
            np.concatenate([getattr(rows, name) for rows in self.frames.values()]) for name in ("X", "labels", "keys")
        ]
        X, labels, keys = joined
        self.centers = X[balanced(labels, keys, self.n_centers)].astype(np.float64)
        K = KernelMatrix(self.kernel, self.centers, self.centers)
        self.sums = ExactMoments.empty(Whitening.of(K), self.outputs)
        for rows in self.frames.values():
            self._accumulate(rows)

    def _accumulate(self, rows: LabeledRows) -> None:
        assert self.sums is not None
        self.sums = self.sums.plus(self._moments(rows))

    def _moments(self, rows: LabeledRows) -> Moments:
        assert self.sums is not None
        K = KernelMatrix(self.kernel, rows.X.astype(np.float64), self.centers)
        targets = np.full((len(rows.X), self.outputs), -1.0)
        targets[:, : rows.shares.shape[1]] = 2.0 * rows.shares - 1.0
        return Moments.of(K, targets, whitening=self.sums.whitening)

    def solve(self) -> Predictor:
        """The function of a row's features with one score for each class, near 1 where it is and -1 where not."""
        assert self.sums is not None
        assert self.centers is not None
        beta, intercept, _ = self.sums.moments().solve(self.penalty)
        return Predictor(self.kernel, self.centers.astype(np.float32), beta, intercept)
