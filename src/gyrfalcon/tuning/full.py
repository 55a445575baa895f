"""Objectives where every row is a center, exactly, from the inverse of one n × n matrix.

With S = K + Nλ W⁻¹, A = S⁻¹ and α = A Y, every objective is a function of α and of a few numbers of A, so that K needs
neither factors nor features of its own: a third of the work, and no jitter. In the centers the derivative is zero, as
K̃ = K k(C, C)⁻¹ Kᵀ does not change to first order while they leave the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, to_tensor
from gyrfalcon.solvers import LeastSquares

from .folds import Folds, Places
from .objectives.base import Criterion, Evaluation, Gradient, Statistics, evaluation
from .pull import Pull, cholesky, solve_factored


def applies(problem: LeastSquares) -> bool:
    """Whether every row is a center, not a frequency, and has weight."""
    K = problem.K
    return K.symmetric and not K.kernel.explicit and (problem.weights is None or bool((problem.weights > 0).all()))


def criterion(problem: LeastSquares, objective: Criterion, *, gradient: bool) -> Evaluation:
    """An objective that is a formula in `Statistics`."""
    full = _Full(problem)
    noise, n = full.noise, len(full.A)
    outputs = problem.Y.shape[1]
    with torch.enable_grad():
        numbers = (
            torch.tensor(problem.penalty, dtype=torch.float64),
            (full.Y * full.alpha).sum() / outputs,
            (full.alpha.square() * noise[:, None]).sum() / outputs,
            full.A.diagonal() @ noise,
            2 * full.factor.diagonal().log().sum(),
        )
        leaves = [number.detach().cpu().requires_grad_() for number in numbers]
        lam, fit, residual, trace, logarithm = leaves
        ridge = (full.total * lam).log()
        statistics = Statistics(
            total=full.total,
            penalty=lam,
            risk=lam * fit + float(np.mean(problem.floor)),
            norm=fit - residual,
            freedom=n - trace,
            defect=torch.zeros((), dtype=torch.float64),
            log_determinant=logarithm + float(full.weights.log().sum()) + (full.total - n) * ridge,
        )
        terms = objective.terms(statistics)
        value = torch.stack(list(terms.values())).sum()
        found = evaluation(value, terms)
        if not gradient:
            return found
        parts = torch.autograd.grad(value, leaves, allow_unused=True)
    in_lam, in_fit, in_residual, in_trace, in_logarithm = (0.0 if part is None else float(part) for part in parts)
    # Both numbers also change with λ at fixed A and α: the noise is proportional to it.
    in_lam += in_residual * float((full.alpha.square() * full.unit[:, None]).sum()) / outputs
    in_lam += in_trace * float(full.A.diagonal() @ full.unit)
    in_alpha = (in_fit * full.Y + 2 * in_residual * noise[:, None] * full.alpha) / outputs
    in_s = full.back(in_alpha, in_trace * noise if in_trace else None)
    if in_logarithm:
        in_s.add_(full.A, alpha=in_logarithm)
    return found._replace(gradient=full.gradient(in_lam, in_s))


def leave_one_out(problem: LeastSquares, *, gradient: bool) -> Evaluation:
    """The mean of (αᵢ / Aᵢᵢ)²."""
    full = _Full(problem)
    share = full.weights[:, None] / (full.total * problem.Y.shape[1])
    with torch.enable_grad():
        alpha, diagonal = (part.detach().clone().requires_grad_() for part in (full.alpha, full.A.diagonal()))
        value = (share * (alpha / diagonal[:, None]).square()).sum()
        found = evaluation(value, {"error": value})
        if not gradient:
            return found
        in_alpha, in_diagonal = torch.autograd.grad(value, (alpha, diagonal))
    return found._replace(gradient=full.gradient(0.0, full.back(in_alpha, in_diagonal)))


def validation(problem: LeastSquares, folds: Folds, *, gradient: bool) -> Evaluation:
    """The mean squared error of folds that are held out in turn, each by ridge regression on the other rows.

    A fold's derivative in K is a product of two thin matrices: with residuals r of the rows held out, α of the others
    and b = S⁻¹K(others, held) W r, it is -2 W r αᵀ where a row is held out and 2 b αᵀ where it is not.
    """
    rows = _Rows(problem)
    lefts, rights = [], []
    error, weight, in_penalty = 0.0, 0.0, 0.0
    for fold in rows.folds(folds):
        factor = cholesky(fold.among, 0.0, problem.penalty * fold.unit)
        alpha = solve_factored(factor, rows.Y[fold.kept])
        residual = rows.Y[fold.out] - fold.predicted(alpha)
        weighted = fold.weights * residual
        error += float((weighted * residual).sum())
        weight += float(fold.weights.sum())
        if gradient:
            b = solve_factored(factor, fold.across @ weighted)
            left, right = torch.zeros_like(rows.Y), torch.zeros_like(rows.Y)
            left[fold.out], left[fold.kept], right[fold.kept] = -2 * weighted, 2 * b, alpha
            lefts.append(left)
            rights.append(right)
            in_penalty += 2 * float(fold.unit @ (b * alpha).sum(1))
    if weight == 0:
        raise ValueError("weights: no row that has any is left on one side of the split")
    scale = 1 / (weight * rows.Y.shape[1])
    value = torch.tensor(error * scale, dtype=torch.float64)
    found = evaluation(value, {"error": value})
    if not gradient:
        return found
    pull = Pull(rows.K)
    if pull.wanted:
        pull.add(rows.K.gradients(scale * torch.cat(lefts, 1), torch.cat(rights, 1), wanted=("parameters",)))
    return found._replace(gradient=Gradient(in_penalty * scale, pull.parameters, rows.still_centers(pull)))


def left_out(problem: LeastSquares) -> Tensor:
    """y - f(x) of every row for the f that is fitted to the others, αᵢ / Aᵢᵢ."""
    full = _Full(problem)
    residuals: Tensor = full.alpha / full.A.diagonal()[:, None]
    return residuals


class HeldOut:
    """Mean squared errors of folds that are held out in turn, at any penalty; entries of K are made once for all.

    If one fold is held out and its rows are the last, entries among them are not made.
    """

    def __init__(self, problem: LeastSquares, folds: Folds):
        first = int(np.argmax(folds.labels == folds.held[0]))
        last_rows = len(folds.held) == 1 and bool((folds.labels[first:] == folds.held[0]).all())
        self._rows = _Rows(problem, count=first if last_rows else None)
        self._folds = self._rows.folds(folds)
        self._weight = sum(float(fold.weights.sum()) for fold in self._folds)
        if self._weight == 0:
            raise ValueError("weights: no row that has any is left on one side of the split")

    def error(self, penalty: float) -> float:
        Y = self._rows.Y
        squares = 0.0
        for fold in self._folds:
            factor = cholesky(fold.among, 0.0, penalty * fold.unit)
            residual = Y[fold.out] - fold.predicted(solve_factored(factor, Y[fold.kept]))
            squares += float((fold.weights * residual.square()).sum())
        return squares / (self._weight * Y.shape[1])


def coefficients(problem: LeastSquares) -> Tensor:
    """α = (K + Nλ W⁻¹)⁻¹ Y."""
    rows = _Rows(problem)
    return solve_factored(cholesky(rows.entries, 0.0, rows.noise), rows.Y)


class _Fold(NamedTuple):
    """Rows held out, the others, and what regression on the others needs."""

    out: Places
    kept: Places
    weights: Tensor  # of the rows held out, as a column
    unit: Tensor  # N W⁻¹ of the others
    among: Tensor  # K(kept, kept)
    across: Tensor  # K(kept, out)

    def predicted(self, alpha: Tensor) -> Tensor:
        """K(out, kept) α, in the order in which both factors are read along their rows."""
        product: Tensor = alpha.T @ self.across
        return product.T


class _Rows:
    """The entries of K, of all rows or the first `count`, the targets, and the noise of each row, in float64."""

    def __init__(self, problem: LeastSquares, count: int | None = None):
        problem = problem if problem.K.dtype == torch.float64 else problem.widened() or problem
        self.K = problem.K
        self.total = problem.total_weight
        self.Y = problem.Y.double()
        n = len(self.Y)
        ones = torch.ones(n, dtype=torch.float64, device=self.Y.device)
        self.weights = ones if problem.weights is None else problem.weights[:, 0].double()
        self.unit = self.total / self.weights  # N W⁻¹
        self.noise = problem.penalty * self.unit
        self.entries = to_tensor(self.K.block(slice(0, n if count is None else count))).double()

    def folds(self, folds: Folds) -> list[_Fold]:
        """The folds that have rows on both sides."""
        found = []
        for out, kept in folds.sides:
            inner, weights = self.entries[kept], self.weights[kept]
            shares = self.weights[out][:, None], weights.sum() / weights
            found.append(_Fold(out, kept, *shares, inner[:, kept], inner[:, out]))
        return found

    def still_centers(self, pull: Pull) -> Array | None:
        """The derivative in the centers, which is zero, if there is one."""
        return None if "C" not in pull.wanted else np.zeros((self.K.shape[1], self.K.n_features))


class _Full(_Rows):
    """The inverse of K + Nλ W⁻¹, and what it gives."""

    def __init__(self, problem: LeastSquares):
        super().__init__(problem)
        self.factor = cholesky(self.entries, 0.0, self.noise)
        self.A = torch.cholesky_inverse(self.factor)
        self.alpha = self.A @ self.Y

    def back(self, in_alpha: Tensor, in_diagonal: Tensor | None) -> Tensor:
        """The symmetric derivative in S from those in α and in the diagonal of A."""
        half = self.A @ in_alpha @ self.alpha.T
        in_s = -(half + half.T) / 2
        if in_diagonal is not None:
            in_s -= (self.A * in_diagonal) @ self.A
        return in_s

    def gradient(self, in_penalty: float, in_s: Tensor) -> Gradient:
        in_penalty += float(in_s.diagonal() @ self.unit)
        pull = Pull(self.K)
        if pull.wanted:
            pull.add(self.K.row_gradients(slice(None), in_s, wanted=("parameters",)))
        return Gradient(in_penalty, pull.parameters, self.still_centers(pull))
