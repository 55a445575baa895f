"""Every number of random features and every penalty, for little more than the price of the largest solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..problem import LeastSquares
from .size_path import PENALTIES, SIZES, SizePath, trace


class RandomFeaturePath(SizePath):
    """Validation errors of shape (sizes, penalties), by number of random features, and the solution for each.

    Features keep their amplitude whatever their number is: to use `size` of D features with an amplitude of 1 / √size
    instead of 1 / √D, take D / size times the penalty.

    Attributes
    ----------
    sizes : array of ints
    penalties : array of floats
    errors : array of shape (sizes, penalties)
        Mean squared errors on rows that were held out.
    deviations : array of shape (sizes, penalties)
        Their standard deviation over the folds; zero for a single one.

    Examples
    --------
    >>> import numpy as np, torch, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 300)[:, None]
    >>> Z = gf.RandomFeatures(length_scale=1.0, n_features=50, random_state=0).fit(X).matrix(X)
    >>> problem = gf.solvers.LeastSquares(Z, torch.from_numpy(np.sin(X)), penalty=0.0)
    >>> path = gf.solvers.random_feature_path(problem, sizes=[2, 10, 50], penalties=[1e-6, 1e-3])
    >>> path.errors.shape, path.smallest(slack=0.01)[0] <= path.best[0]
    ((3, 2), True)
    """

    unit: ClassVar[str] = "random features"


def random_feature_path(
    problem: LeastSquares,
    *,
    sizes: int | Sequence[int] = SIZES,
    penalties: int | Sequence[float] = PENALTIES,
    validation: float | int = 0.2,
    random_state: int = 0,
) -> RandomFeaturePath:
    """Solve with the first D features for every D of a grid and every penalty of another, in one pass over X.

    The moments of the first features are a leading block of ZᵀZ, and a Cholesky factor of ZᵀZ/n + penalty·I holds the
    factors of all its leading blocks, as in `nystrom_path`, without a metric to factor.

    Parameters
    ----------
    problem : LeastSquares
        On the matrix of `RandomFeatures`; its penalty is not used.
    sizes : int or sequence of ints
        How many sizes, evenly spaced on a logarithmic scale up to all features; or the sizes.
    penalties : int or sequence of floats
        How many penalties, from 1e-7 to 10 over the sum of the weights; or the penalties.
    validation : float or int
        The share of rows held out, or a number of folds.
    random_state : int
        Decides which rows are held out.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[torch.randperm(500)][:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> features = gf.RandomFeatures("gaussian", 200, length_scale=1.0, random_state=0).fit(X)
    >>> problem = gf.solvers.LeastSquares(features.matrix(X), Y, penalty=0.0)
    >>> path = gf.solvers.random_feature_path(problem, sizes=[20, 60, 200], penalties=[1e-2, 1e-4, 1e-6])
    >>> path.errors.shape
    (3, 3)
    >>> size, penalty = path.smallest()
    >>> path.solution(size, penalty).coefficients.shape == (size, 1)
    True
    """
    if not problem.K.kernel.explicit:
        raise ValueError(
            f"problem: {problem.K.kernel!r} has centers, not features: take nystrom_path, or RandomFeatures(...).matrix"
        )
    return trace(RandomFeaturePath, problem, sizes, penalties, validation, random_state)
