"""A grid of penalties and length scales by cross-validation, at the price of one eigendecomposition a length scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.solvers import LeastSquares
from gyrfalcon.threads import one_thread_each

from .exact import Pass
from .parameters import rescaled

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PenaltyPath:
    """Tuning on a grid: pass it as an estimator's `tune`.

    For each length scale and each fold the moments of the features are diagonalized once, after which every penalty
    costs m² operations: a hundred penalties are as cheap as one.

    Parameters
    ----------
    penalties : "auto" or sequence of floats
        "auto" is 25 values, evenly spaced on a logarithmic scale, from 1e-7 to 10 over the sum of the weights.
    length_scales : sequence of floats
        Factors of the length scale that the estimator starts from.
    folds : int
    rows : int
        How many rows are looked at, chosen at random.
    n_centers : int
        How many centers are used, at most.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = gf.KernelRegressor(tune=gf.tuning.PenaltyPath(length_scales=(0.3, 1.0, 3.0))).fit(X, np.sin(X[:, 0]))
    >>> model.tuning_.errors.shape
    (3, 25)
    """

    penalties: Any = "auto"
    length_scales: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0)
    folds: int = 5
    rows: int = 10_000
    n_centers: int = 500

    def __post_init__(self) -> None:
        if isinstance(self.penalties, str) and self.penalties != "auto":
            raise ValueError(f"penalties must be 'auto' or positive numbers, got {self.penalties!r}")
        given = [] if isinstance(self.penalties, str) else list(self.penalties)
        for name, values in (("penalties", given), ("length_scales", list(self.length_scales))):
            if not all(np.isfinite(value) and value > 0 for value in values):
                raise ValueError(f"{name} must be positive numbers, got {values!r}")
        if len(self.length_scales) == 0 or (not given and not isinstance(self.penalties, str)):
            raise ValueError("penalties and length_scales must not be empty")
        for name in ("folds", "rows", "n_centers"):
            if getattr(self, name) < (2 if name == "folds" else 1):
                raise ValueError(f"{name} is too small: {getattr(self, name)}")


@dataclass(frozen=True)
class Grid:
    """Cross-validated errors, of shape (length scales, penalties), and which is lowest.

    `length_scales` are the factors of `PenaltyPath`, `errors` mean squared errors over the folds, in units of the
    variance of the targets, `deviations` their standard deviation over folds.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.tuning import Grid
    >>> errors = np.array([[0.3, 0.2], [0.1, 0.4]])
    >>> grid = Grid(np.array([1e-6, 1e-3]), np.array([0.5, 2.0]), errors, 0 * errors)
    >>> grid.best  # length scale, penalty
    (1, 0)
    """

    penalties: Array
    length_scales: Array
    errors: Array
    deviations: Array

    @property
    def best(self) -> tuple[int, int]:
        row, column = np.unravel_index(int(np.argmin(self.errors)), self.errors.shape)
        return int(row), int(column)


@one_thread_each
def cross_validate(problem: LeastSquares, penalties: Array, folds: int, random: np.random.Generator) -> Array:
    """Mean squared errors of the folds, of shape (folds, penalties), for one kernel.

    Parameters
    ----------
    problem : LeastSquares
        Its own penalty is not used.
    penalties : array of shape (p,)
    folds : int
    random : numpy.random.Generator

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> import numpy as np
    >>> errors = gf.tuning.cross_validate(problem, np.array([1e-6, 1.0]), 5, np.random.default_rng(0))
    >>> errors.shape, bool((errors[:, 0] < errors[:, 1]).all())
    ((5, 2), True)
    """
    n, outputs = problem.Y.shape
    if not 2 <= folds <= n:
        raise ValueError(f"folds must lie between 2 and the {n} rows, got {folds}")
    labels = random.permutation(n) % folds
    pass_ = Pass(problem)
    parts = pass_.moments_by_part(torch.from_numpy(labels).to(pass_.device), folds)
    second = torch.stack([part.second for part in parts])
    first = torch.stack([part.first for part in parts])
    total = sum(part.total for part in parts)
    errors = np.full((folds, len(penalties)), np.nan)
    for fold, held in enumerate(parts):
        left = total - held.total
        if left <= 0 or held.total <= 0:
            continue
        values, vectors = torch.linalg.eigh((second.sum(0) - held.second) / left)
        side = vectors.T @ ((first.sum(0) - held.first) / left)
        turned = replace(held, second=vectors.T @ held.second @ vectors, first=vectors.T @ held.first)
        for place, penalty in enumerate(penalties):
            v: Tensor = side / (values.clamp_min(0)[:, None] + penalty)
            errors[fold, place] = float(turned.squares(v)) / (held.total * outputs)
    return errors


def search(
    problem: LeastSquares, settings: PenaltyPath, random: np.random.Generator, callback: Callable[[], Any]
) -> tuple[LeastSquares, Grid]:
    """The problem with the best of the length scales and penalties, and all their errors."""
    total = problem.total_weight
    penalties = np.logspace(-7, 1, 25) / total if isinstance(settings.penalties, str) else np.array(settings.penalties)
    seed = int(random.integers(2**31))
    candidates, errors, deviations = [], [], []
    for ratio in settings.length_scales:
        candidates.append(problem.at(kernel=rescaled(problem.K.kernel, ratio)))
        found = cross_validate(candidates[-1], penalties, settings.folds, np.random.default_rng(seed))
        errors.append(np.nanmean(found, axis=0))
        deviations.append(np.nanstd(found, axis=0))
        callback()
    grid = Grid(penalties, np.array(settings.length_scales, dtype=float), np.array(errors), np.array(deviations))
    row, column = grid.best
    return candidates[row].at(penalty=float(penalties[column])), grid
