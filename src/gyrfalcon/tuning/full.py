"""Objectives where every row is a center, exactly, from the inverse of one n × n matrix.

With S = K + Nλ W⁻¹, A = S⁻¹ and α = A Y, every objective is a function of α and of a few numbers of A, so that K needs
neither factors nor features of its own: a third of the work, and no jitter. In the centers the derivative is zero, as
K̃ = K k(C, C)⁻¹ Kᵀ does not change to first order while they leave the rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import to_tensor
from gyrfalcon.solvers import LeastSquares

from .objectives.base import Criterion, Evaluation, Gradient, Statistics, evaluation
from .pull import Pull, cholesky


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


class _Full:
    def __init__(self, problem: LeastSquares):
        problem = problem if problem.K.dtype == torch.float64 else problem.widened() or problem
        self.K = problem.K
        self.total = problem.total_weight
        self.Y = problem.Y.double()
        n = len(self.Y)
        ones = torch.ones(n, dtype=torch.float64, device=self.Y.device)
        self.weights = ones if problem.weights is None else problem.weights[:, 0].double()
        self.unit = self.total / self.weights  # N W⁻¹
        self.noise = problem.penalty * self.unit
        S = to_tensor(self.K.to_dense()).double()
        S.diagonal().add_(self.noise)
        self.factor = cholesky(S, 0.0)
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
        centers = None if "C" not in pull.wanted else np.zeros((self.K.shape[1], self.K.n_features))
        return Gradient(in_penalty, pull.parameters, centers)
