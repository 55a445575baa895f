"""Spectral cut-off: least squares in the span of the leading eigenvectors, of which validation chooses the number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh

from .features import excess
from .part_moments import Moments, PartMoments
from .problem import LeastSquares, as_numpy
from .solution import FilterPath, Record, Solution
from .stopping import Split, check_count

Array = np.ndarray[Any, Any]


def spectral_cutoff(
    problem: LeastSquares,
    *,
    validation: float | int | None = 0.2,
    max_components: int | None = None,
    random_state: int = 0,
) -> Solution:
    """Keep the k largest eigenvalues σ of ZᵀZ/n + penalty, inverted to 1/σ, and drop the others.

    Also known as truncated singular values, or principal component regression in the features Z = K T⁻¹. One pass over
    X and one eigendecomposition for each fold and for all rows, m³ operations each; after that every k is free.

    Parameters
    ----------
    problem : LeastSquares
    validation : float, int or None
        The share of rows held out, or a number of folds, by whose error k is chosen; None takes `max_components`.
    max_components : int, optional
        The largest k; the numerical rank if not given.
    random_state : int
        Decides which rows are held out.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[::10]), Y, penalty=0.0)
    >>> gf.solvers.spectral_cutoff(problem, validation=5).record.path.chosen < 20
    True
    """
    if max_components is not None:
        check_count("max_components", max_components)
    if problem.K.shape[1] == 0:
        raise ValueError("C has no rows: give at least one centre")
    moments = PartMoments.of(problem, Split.of(problem.K.shape[0], validation, random_state))
    total = moments.total()
    with problem.timed("solve"):
        shift = -excess(problem.penalty, moments.jitter, moments.rounding) * moments.inverse_gram()
        np.fill_diagonal(shift, shift.diagonal() + problem.penalty)
        whole = Spectrum.of(total, shift)
        count = min(whole.rank, max_components or whole.rank)
        squares, weight = np.zeros(count + 1), 0.0
        for training, held in moments.folds(total):
            squares += Spectrum.of(training, shift).squared_errors(held.about(training.sums.center()))[: count + 1]
            weight += held.sums.weight
    errors = (np.maximum(squares, 0.0) / (weight * problem.Y.shape[1])).tolist() if weight > 0 else []
    chosen = int(np.argmin(errors)) if errors else count
    start = total.sums.variance() + problem.floor
    objectives = start - np.concatenate([np.zeros((1, len(start))), np.cumsum(whole.falls[:count], axis=0)])
    v = whole.vectors[:, :chosen] @ whole.coordinates[:chosen]
    center = total.sums.center()
    offset = as_numpy(problem.mean) + center.targets - center.features[:, 0] @ v
    record = Record(
        solver="spectral_cutoff",
        message=f"kept {chosen} of {whole.rank} components",
        jitter=moments.jitter,
        objective=np.maximum(objectives[chosen], 0.0).tolist(),
        objective_history=objectives.sum(1).tolist(),
        validation_errors=errors,
        passes=1,
        seconds=problem.seconds,
        path=FilterPath(list(range(count + 1)), objectives.sum(1).tolist(), errors, chosen, "component"),
    )
    features = moments.features(total)
    coefficients = torch.from_numpy(np.ascontiguousarray(features.back(v)))
    return Solution(coefficients, torch.from_numpy(offset), record, features)


class Spectrum(NamedTuple):
    """Eigenvectors, from the largest eigenvalue down, the coordinates of the solution along them, and how much each
    lowers the objective; zero where an eigenvalue is numerically zero, below the rank.
    """

    vectors: Array
    coordinates: Array
    falls: Array
    rank: int

    @classmethod
    def of(cls, moments: Moments, shift: Array) -> Spectrum:
        values, vectors = (found[..., ::-1] for found in eigh(moments.centered() + shift, overwrite_a=True))
        rank = int(np.sum(values > len(values) * np.finfo(float).eps * max(values[0], np.finfo(float).tiny)))
        side = vectors.T @ moments.sums.right_side()
        side[rank:] = 0
        coordinates = side / np.where(np.arange(len(values)) < rank, values, 1.0)[:, None]
        return cls(vectors, coordinates, side * coordinates, rank)

    def squared_errors(self, held: Moments) -> Array:
        """Σ w (y - zᵀv)² over outputs for the first 0, 1, 2, ... components: sums over leading blocks of one matrix."""
        second = self.vectors.T @ held.second @ self.vectors
        before = np.tril(second, -1) @ self.coordinates
        within = second.diagonal()[:, None] * self.coordinates
        gain = self.coordinates * (2 * before + within - 2 * self.vectors.T @ held.sums.cross)
        return np.asarray(held.sums.squares.sum() + np.concatenate([[0.0], np.cumsum(gain.sum(1))]))
