"""Spectral cut-off: least squares in the span of the leading eigenvectors, of which validation chooses the number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Whitening

from ..problem import LeastSquares
from ..solution import FilterPath, Record, Solution
from ..solver import Run, Solver, State, Traits
from ..stopping import Split, check_count, check_validation


class CutoffState(State):
    """The whitening of the centers, and which rows are held out."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool, split: Split):
        super().__init__(K, weights, intercept)
        if K.shape[1] == 0:
            raise ValueError("C has no rows: give at least one center")
        self.split = split
        split.weigh(None if weights is None else as_numpy(weights, np.float64)[:, 0])
        with self.timed("factor"):
            self.whitening = Whitening.of(K)


@dataclass(frozen=True)
class SpectralCutoff(Solver[CutoffState]):
    """Keep the k largest eigenvalues σ of ZᵀZ/n + penalty, inverted to 1/σ, and drop the others.

    Also known as truncated singular values, or principal component regression in the features Z = K T⁻¹. One pass over
    X and one eigendecomposition for each fold and for all rows, m³ operations each; after that every k is free.

    Parameters
    ----------
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
    >>> gf.solvers.solve(problem, gf.solvers.SpectralCutoff(validation=5)).record.path.chosen < 20
    True
    """

    validation: float | int | None = 0.2
    max_components: int | None = None
    random_state: int = 0

    name: ClassVar[str] = "spectral_cutoff"
    traits: ClassVar[Traits] = Traits(needs_penalty=False, holds_out=True)

    def __post_init__(self) -> None:
        check_validation(self.validation)
        if self.max_components is not None:
            check_count("max_components", self.max_components)

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> CutoffState:
        return CutoffState(K, weights, intercept, Split.of(K.shape[0], self.validation, self.random_state))

    def _solve(self, state: CutoffState, problem: LeastSquares, run: Run) -> Solution:
        split = state.split
        with problem.timed("moments"):
            labels = split.labels if split.count > 1 else None
            origin = as_numpy(problem.mean)
            parts = Moments.by_part(
                state.K, problem.Y, state.weights, labels, split.count, origin=origin, whitening=state.whitening
            )
        if not problem.intercept:
            parts = [part.without_intercept() for part in parts]
        total = sum(parts[1:], parts[0])
        with problem.timed("solve"):
            shift = -state.whitening.excess(problem.penalty) * state.whitening.inverse_gram()
            np.fill_diagonal(shift, shift.diagonal() + problem.penalty)
            whole = Spectrum.of(total, shift)
            count = min(whole.rank, self.max_components or whole.rank)
            squares, weight = np.zeros(count + 1), 0.0
            for training, held in total.folds(parts, split.held):
                found = Spectrum.of(training, shift).squared_errors(held.shifted(training.sums.center()))
                squares += found[: count + 1]
                weight += held.sums.weight
        errors = (np.maximum(squares, 0.0) / (weight * problem.Y.shape[1])).tolist() if weight > 0 else []
        chosen = int(np.argmin(errors)) if errors else count
        start = total.sums.variance() + problem.floor
        objectives = start - np.concatenate([np.zeros((1, len(start))), np.cumsum(whole.falls[:count], axis=0)])
        v = whole.vectors[:, :chosen] @ whole.coordinates[:chosen]
        center = total.sums.center()
        offset = origin + center.targets - center.features[:, 0] @ v
        record = Record(
            solver=self.name,
            message=f"kept {chosen} of {whole.rank} components",
            jitter=state.whitening.jitter,
            objective=np.maximum(objectives[chosen], 0.0).tolist(),
            objective_history=objectives.sum(1).tolist(),
            validation_errors=errors,
            passes=1,
            seconds=problem.seconds,
            path=FilterPath(list(range(count + 1)), objectives.sum(1).tolist(), errors, chosen, "component"),
        )
        coefficients = torch.from_numpy(np.ascontiguousarray(state.whitening.coefficients(v)))
        return Solution(coefficients, torch.from_numpy(offset), record, total)


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
