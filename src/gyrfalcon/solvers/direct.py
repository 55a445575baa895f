"""Direct solves: the Nyström normal equations for few centres, the kernel system itself for few points."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import cho_solve, eigh

from gyrfalcon.linalg.triangles import SingularError, cholesky_with_jitter

from .features import Features
from .problem import LeastSquares, Problem
from .solution import Record, Solution

Array = np.ndarray[Any, Any]


def direct(problem: LeastSquares) -> Solution:
    """Solve by factorisation after one pass over X, in the coordinates v = Tβ in which ‖f‖² is a sum of squares.

    With TᵀT = k(C, C) and Z = K T⁻¹ the equations are (ZᵀWZ/Σw + penalty·I) v = ZᵀWY/Σw, which are as well conditioned
    as the penalty makes them. Forming KᵀWK first would square the condition of k(C, C) on top.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> solution = gf.solvers.direct(problem)
    >>> bool((problem.K @ solution.coefficients - problem.Y).abs().max() < 0.01)
    True
    """
    try:
        features = Features.of(problem)
    except SingularError:
        raise not_positive(problem) from None
    return from_features(problem, features)


def not_positive(problem: Problem) -> ValueError:
    """What to say when k(C, C) cannot be factored."""
    return ValueError(f"kernel: {problem.K.kernel!r} is not positive definite on these centres: choose another")


def from_features(problem: LeastSquares, features: Features) -> Solution:
    """The solution of `direct` where the features are known already."""
    with problem.timed("solve"):
        outputs = problem.Y.shape[1]
        right, mean = features.sides[:, :outputs], features.sides[:, outputs:]
        matrix = features.matrix(problem.penalty)
        matrix -= mean @ mean.T
        np.fill_diagonal(matrix, matrix.diagonal() + problem.penalty)
        v = solve_positive(matrix, right)
        objective = problem.value_at_zero - np.einsum("ij,ij->j", v, right)
    record = Record(
        solver="direct",
        message="solved by factorisation",
        jitter=features.jitter,
        objective=np.maximum(objective, 0.0).tolist(),
        seconds=problem.seconds,
    )
    intercept = problem.finish(v, mean)[1]
    return Solution(torch.from_numpy(np.ascontiguousarray(features.back(v))), intercept, record, features)


def exact(problem: LeastSquares) -> Solution:
    """Solve (K + penalty·Σw·W⁻¹) α = Y for centres that are the points.

    In the symmetric form α = √W (√W K √W + penalty·Σw·I)⁻¹ √W Y, which admits weights of zero.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 50, dtype=torch.float64)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Laplacian(1.0), X)  # the centres are the points
    >>> solution = gf.solvers.exact(gf.solvers.LeastSquares(K, torch.sin(X), penalty=0.1 / 50))
    >>> K_dense = gf.kernels.Laplacian(1.0)(X)
    >>> torch.allclose(solution.coefficients, torch.linalg.solve(K_dense + 0.1 * torch.eye(50), torch.sin(X)))
    True
    """
    K = problem.K
    if K.kernel.explicit:
        raise ValueError(f"kernel: {K.kernel!r} has features for columns, not points: solve with 'direct' or 'falkon'")
    if K.C is not K.X:
        raise ValueError("solver='exact' needs every distinct point as a centre: raise n_centers, or choose 'auto'")
    with problem.timed("factor"):
        matrix = np.asfortranarray(K.between_centers())
        root = np.ones(len(matrix)) if problem.weights is None else problem.weights[:, 0].double().sqrt().cpu().numpy()
        matrix *= np.outer(root, root)
        np.fill_diagonal(matrix, matrix.diagonal() + problem.penalty * problem.total_weight)
    Y = problem.Y.double().cpu().numpy()
    sides = np.concatenate([Y, np.ones((len(Y), 1))], 1) if problem.intercept else Y
    with problem.timed("solve"):
        solved = solve_positive(matrix, root[:, None] * sides)
        solved = root[:, None] * solved
    offset = np.zeros(Y.shape[1])
    if problem.intercept:  # 1ᵀα = 0
        alpha, ones = solved[:, :-1], solved[:, -1]
        offset = alpha.sum(0) / ones.sum()
        solved = alpha - np.outer(ones, offset)
    if problem.penalty:  # what is left is penalty·Σw·W⁻¹α
        objective = problem.penalty * np.einsum("ij,ij->j", Y, solved)
    else:  # nothing, unless rows contradict each other
        left = root[:, None] * (K.between_centers() @ solved + offset - Y)
        objective = np.einsum("ij,ij->j", left, left) / problem.total_weight
    record = Record(
        solver="exact",
        message="solved by factorisation",
        objective=(objective + problem.floor).tolist(),
        seconds=problem.seconds,
    )
    return Solution(torch.from_numpy(np.ascontiguousarray(solved)), torch.from_numpy(offset), record)


def is_rounding(factor: Array, matrix: Array) -> bool:
    """Whether a pivot of a Cholesky factor is no more than rounding, so that it might as well have failed."""
    least = float(np.min(factor.diagonal(), initial=np.inf)) ** 2
    return least <= len(matrix) * np.finfo(float).eps * float(np.max(matrix.diagonal(), initial=0.0))


def solve_positive(matrix: Array, sides: Array) -> Array:
    """Solve with a positive semi-definite matrix, which is overwritten: by Cholesky, refined once, or, where the matrix
    is numerically singular, by eigenvalues for the solution of least norm.
    """
    if len(matrix) == 0:
        return np.zeros_like(sides)
    full = matrix.copy()
    try:
        if cholesky_with_jitter(matrix, 0.0) == 0 and not is_rounding(matrix, full):
            solved: Array = cho_solve((matrix, False), sides)
            solved += cho_solve((matrix, False), sides - full @ solved)
            if np.isfinite(solved).all():
                return solved
    except SingularError:
        pass
    values, vectors = eigh(full, overwrite_a=True)
    kept = values > len(full) * np.finfo(float).eps * max(float(values[-1]), np.finfo(float).tiny)
    basis = vectors[:, kept]
    solution: Array = basis @ ((basis.T @ sides) / values[kept, None])
    return solution
