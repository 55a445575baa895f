"""Every number of centers and every penalty, for little more than the price of the largest solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..problem import LeastSquares
from .size_path import PENALTIES, SIZES, SizePath, trace


class NystromPath(SizePath):
    """Validation errors of shape (sizes, penalties), by number of centers, and the solution for each.

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
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> path = gf.solvers.nystrom_path(problem, sizes=[5, 10, 30], penalties=[1e-6, 1e-3])
    >>> path.errors.shape, path.best
    ((3, 2), (30, 1e-06))
    """

    unit: ClassVar[str] = "centers"


def nystrom_path(
    problem: LeastSquares,
    *,
    sizes: int | Sequence[int] = SIZES,
    penalties: int | Sequence[float] = PENALTIES,
    validation: float | int = 0.2,
    random_state: int = 0,
) -> NystromPath:
    """Solve with the first m centers for every m of a grid and every penalty of another, in one pass over X.

    T, with TᵀT = k(C, C), is triangular, so the features of the first m centers are the first m columns of Z = K T⁻¹,
    and their moments a leading block of ZᵀZ. A Cholesky factor of ZᵀZ/n + penalty·I holds the factors of all its
    leading blocks: m³/3 operations serve all sizes at one penalty, n·m² all penalties. Held-out errors come from the
    moments of the rows held out. A hold-out costs `penalties` factorizations, k folds k times that.

    Parameters
    ----------
    problem : LeastSquares
        Its centers are added in the order in which they stand, which should be that of a shuffle or of importance;
        its penalty is not used.
    sizes : int or sequence of ints
        How many sizes, evenly spaced on a logarithmic scale up to all centers; or the sizes.
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
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[:40]), Y, penalty=0.0)
    >>> path = gf.solvers.nystrom_path(problem, sizes=[5, 10, 20, 40], penalties=[1e-2, 1e-4, 1e-6])
    >>> path.errors.shape
    (4, 3)
    >>> m, penalty = path.smallest()
    >>> path.solution(m, penalty).coefficients.shape == (m, 1)
    True
    """
    return trace(NystromPath, problem, sizes, penalties, validation, random_state)
