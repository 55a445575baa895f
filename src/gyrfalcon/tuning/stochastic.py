"""Objectives for many rows: traces from random probes, inverses by Falkon's iterations, gradients as products with ∇K.

With N = Σw, G = KᵀWK/N and B = G + λ k(C, C), everything is made of solutions of B β = b and of the products K β. No
n × m matrix is formed; what is stored has n rows and one column for each target and probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_numpy, to_tensor
from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.linalg.lanczos import log_quadrature
from gyrfalcon.moments import Whitening
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.solvers.falkon import NormalEquations

from .folds import Folds
from .objectives.base import Array, Criterion, Evaluation, Gradient, Statistics, evaluation
from .pull import Pull

SAMPLED = 16  # rows to a center, from which solves are preconditioned
ROUGHLY = 25  # how much larger the tolerance of probes is: what they estimate varies by more from probe to probe


@dataclass(frozen=True)
class Stochastic:
    """Evaluate objectives with fixed random probes and iterative solves, at the price of a few passes over X.

    Solves are preconditioned by a sample of the rows, so that a few iterations do. Value and gradient are those of
    2 bᵀβ - βᵀBβ at the β that there is, so they agree with each other however far the solve has come.

    Parameters
    ----------
    probes : int
        Random vectors for traces, and rows for leave-one-out. 20 suffice; 10 may diverge.
    sample : int, optional
        Rows for the trace of K̃; as many as centers, and 1,000 at least, if not given.
    tolerance : float
        Of the solves: the norm of the preconditioned residual relative to that of the right side; of those for probes,
        25 times as much.
    max_iterations : int
        Of each solve.
    random_state : int

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[:100]), X[:, :1].sin(), penalty=1e-4)
    >>> [round(gf.tuning.GCV().evaluate(problem, way).value, 3) for way in (gf.tuning.Exact(), gf.tuning.Stochastic())]
    [0.003, 0.003]
    """

    probes: int = 20
    sample: int | None = None
    tolerance: float = 2e-3
    max_iterations: int = 100
    random_state: int = 0

    def criterion(self, problem: LeastSquares, objective: Criterion, *, gradient: bool) -> Evaluation:
        run = _Run(problem, self)
        n, outputs = problem.Y.shape
        total, penalty = run.total, problem.penalty
        traced = self.probes if "freedom" in objective.needs else 0
        sides = run.weighted_targets()
        if traced:
            signs = torch.from_numpy(run.random.integers(0, 2, (n, traced), dtype=np.int8)).to(run.device)
            signs = signs.to(run.dtype).mul_(2).sub_(1)
            sides = torch.cat([sides, signs if run.roots is None else run.roots * signs], 1)
            del signs
        right = as_numpy(run.K.rmv(sides, dtype=torch.float64)) / total
        beta = run.solve(right, probes=traced)
        values = run.values(beta)
        norms = run.norms(beta)
        # Of second order in what the solve lacks: 2 sᵀKβ - N βᵀBβ.
        forms = 2 * total * np.einsum("ij,ij->j", right, beta) - run.squares(values) - total * penalty * norms
        trace = run.prior_trace()
        sampled = run.sampled_trace() if "defect" in objective.needs else 0.0
        logarithm = run.log_determinant() if "log_determinant" in objective.needs else 0.0
        with torch.enable_grad():
            numbers = (
                penalty,
                (run.square() - forms[:outputs].mean()) / total,
                norms[:outputs].mean(),
                forms[outputs:].mean() if traced else 0.0,
                trace - sampled,
                logarithm,
            )
            leaves = [torch.tensor(float(number), dtype=torch.float64, requires_grad=True) for number in numbers]
            terms = objective.terms(Statistics(total, *leaves))
            value = torch.stack(list(terms.values())).sum()
            found = evaluation(value, terms)
            if not gradient:
                return found
            parts = torch.autograd.grad(value, leaves, allow_unused=True)
        in_penalty, in_risk, in_norm, in_freedom, in_defect, in_logarithm = (
            0.0 if part is None else float(part) for part in parts
        )
        run.in_penalty = in_penalty
        weights = np.full(beta.shape[1], -in_risk / (total * outputs))
        weights[outputs:] = in_freedom / max(1, traced)
        residual = sides.sub_(values if run.weights is None else run.weights * values)
        if in_norm:
            fitted = beta[:, :outputs]
            run.add_adjoint(residual[:, :outputs].clone(), fitted, 2 * in_norm / outputs * (run.among @ fitted))
            run.add_between(in_norm / outputs * fitted, fitted)
        run.add_product(residual.mul_(torch.from_numpy(2 * weights).to(residual)), beta)
        run.add_between(-total * penalty * weights * beta, beta)
        run.in_penalty -= float(total * (weights * norms).sum())
        if in_defect:
            run.pull.add_diagonal(in_defect, problem.weights)
            run.pull_sampled_trace(-in_defect)
        if in_logarithm:
            run.pull_log_determinant(in_logarithm)
        return found._replace(gradient=run.gradient())

    def validation(self, problem: LeastSquares, folds: Folds, *, gradient: bool) -> Evaluation:
        labels = folds.labels
        given = np.ones(len(labels)) if problem.weights is None else as_numpy(problem.weights, np.float64)[:, 0]
        held = tuple(fold for fold in folds.held if given[labels == fold].any() and given[labels != fold].any())
        judged = float(given[np.isin(labels, held)].sum())
        if judged == 0:
            raise ValueError("weights: no row that has any is left on one side of the split")
        scale = 1 / (judged * problem.Y.shape[1])
        value, in_penalty, pull = 0.0, 0.0, Pull(problem.K)
        for fold in held:
            inside = torch.from_numpy(np.where(labels == fold, given, 0.0))[:, None]
            outside = torch.from_numpy(np.where(labels == fold, 0.0, given))[:, None]
            inside, outside = (w.to(problem.Y.device, problem.Y.dtype) for w in (inside, outside))
            training = LeastSquares(problem.K, problem.Y, problem.penalty, outside)
            run = _Run(training, self, pull)
            right = as_numpy(run.K.rmv(run.weighted_targets(), dtype=torch.float64)) / run.total
            beta = run.solve(right)
            residual = problem.Y - run.values(beta)
            missed = inside * residual
            value += scale * float((missed.double() * residual.double()).sum())
            if gradient:
                missed = missed.mul_(-2 * scale)
                run.add_product(missed, beta)
                in_beta = as_numpy(run.K.rmv(missed, dtype=torch.float64))
                run.add_adjoint(outside * residual, beta, in_beta)
                in_penalty += run.gradient().penalty
        number = torch.tensor(value, dtype=torch.float64)
        found = evaluation(number, {"error": number})
        return found._replace(gradient=Gradient(in_penalty, *pull.result())) if gradient else found

    def leave_one_out(self, problem: LeastSquares, *, gradient: bool) -> Evaluation:
        run = _Run(problem, self)
        n, outputs = problem.Y.shape
        total = run.total
        chosen = np.sort(run.random.choice(n, min(n, self.probes), replace=False))
        at = torch.from_numpy(chosen).to(run.device)
        few = run.K.rows(chosen).widened()
        rows = as_numpy(few.to_dense())
        right = as_numpy(run.K.rmv(run.weighted_targets(), dtype=torch.float64)) / total
        solved = run.solve(np.concatenate([right, rows.T], 1))
        beta, pulled = solved[:, :outputs], solved[:, outputs:]
        w = np.ones(len(chosen)) if run.weights is None else as_numpy(run.weights[at, 0].double())
        leverage = w / total * np.einsum("ij,ji->i", rows, pulled)
        residual = as_numpy(problem.Y[at].double()) - rows @ beta
        squares = np.square(residual).sum(1)
        scale = n / (len(chosen) * total * outputs)
        number = torch.tensor(scale * float((w * squares / (1 - leverage) ** 2).sum()), dtype=torch.float64)
        found = evaluation(number, {"error": number})
        if not gradient:
            return found
        in_residual = 2 * scale * (w / (1 - leverage) ** 2)[:, None] * residual
        in_leverage = 2 * scale * w * squares / (1 - leverage) ** 3 * w / total
        values = run.values(solved)
        left = run.weighted_targets().sub_(
            values[:, :outputs] if run.weights is None else run.weights * values[:, :outputs]
        )
        run.add_adjoint(left, beta, -rows.T @ in_residual)
        weighted = values[:, outputs:] if run.weights is None else run.weights * values[:, outputs:]
        run.add_product(weighted * torch.from_numpy(-2 / total * in_leverage).to(weighted), pulled)
        run.add_between(-problem.penalty * in_leverage * pulled, pulled)
        run.in_penalty -= float((in_leverage * run.norms(pulled)).sum())
        in_rows = 2 * in_leverage[:, None] * pulled.T - in_residual @ beta.T
        run.pull.add(few.row_gradients(slice(None), torch.from_numpy(in_rows), wanted=run.pull.wanted))
        return found._replace(gradient=run.gradient())


class _Run:
    """One evaluation: the factored system, its solves, and the derivatives collected so far."""

    def __init__(self, problem: LeastSquares, method: Stochastic, pull: Pull | None = None):
        self.problem, self.method, self.K = problem, method, problem.K
        self.device, self.dtype = problem.K.device, problem.K.dtype
        self.total = problem.total_weight
        self.weights = problem.weights
        self.roots = None if problem.weights is None else problem.weights.sqrt()
        self.random = np.random.default_rng(method.random_state)
        plain = LeastSquares(problem.K, problem.Y, problem.penalty, problem.weights)
        self.equations = NormalEquations(plain, min(problem.K.shape[0], SAMPLED * problem.K.shape[1]))
        self.among = self.K.between_centers()
        self.pull = Pull(problem.K) if pull is None else pull
        self.in_penalty = 0.0
        self._in_between = np.zeros_like(self.among)
        self._lefts: list[Tensor] = []
        self._rights: list[Array] = []

    def weighted_targets(self) -> Tensor:
        return self.problem.Y.clone() if self.weights is None else self.weights * self.problem.Y

    def square(self) -> float:
        """Σ w y², averaged over the outputs."""
        Y = self.problem.Y.double().square()
        square = float((Y if self.weights is None else self.weights.double() * Y).sum()) / Y.shape[1]
        return square + self.total * float(np.mean(self.problem.floor))

    def solve(self, right: Array, *, probes: int = 0) -> Array:
        """B⁻¹ right, of which the last columns are probes."""
        tolerance = np.full(right.shape[1], self.method.tolerance)
        tolerance[right.shape[1] - probes :] *= ROUGHLY
        try:
            result = conjugate_gradients(
                self.equations.operator,
                self.equations.right_side(right),
                tolerance=tolerance,
                max_iterations=self.method.max_iterations,
            )
        except ValueError as error:  # the engine's door turns vectors away that are not finite
            raise FloatingPointError("the solve diverged") from error
        beta = self.equations.coefficients(result.solution)
        if not np.isfinite(beta).all():
            raise FloatingPointError("the solve diverged")
        return beta

    def values(self, beta: Array) -> Tensor:
        """K β."""
        return to_tensor(self.K @ self._vectors(beta))

    def _vectors(self, values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, self.dtype)

    def squares(self, values: Tensor) -> Array:
        """Σᵢ wᵢ vᵢ² by column."""
        rooted = values if self.roots is None else self.roots * values
        return as_numpy(torch.linalg.vector_norm(rooted, dim=0).double().square())

    def norms(self, beta: Array) -> Array:
        """βᵀ k(C, C) β by column."""
        return np.asarray(np.einsum("ij,ij->j", beta, self.among @ beta))

    # Derivatives.

    def add_product(self, left: Tensor, right: Array) -> None:
        """Of leftᵀ K right, summed over columns."""
        self._lefts.append(left)
        self._rights.append(right)

    def add_between(self, left: Array, right: Array) -> None:
        """Of leftᵀ k(C, C) right, summed over columns."""
        self._in_between += left @ right.T

    def add_adjoint(self, residual: Tensor, beta: Array, in_beta: Array) -> None:
        """Of β = B⁻¹KᵀWY/N, whose residual W(Y - Kβ) this is, from the derivative in β."""
        a = self.solve(in_beta)
        image = self.values(a)
        self.add_product(residual / self.total, a)
        self.add_product((image if self.weights is None else self.weights * image) / -self.total, beta)
        self.add_between(-self.problem.penalty * a, beta)
        self.in_penalty -= float(np.einsum("ij,ij->", a, self.among @ beta))

    def gradient(self) -> Gradient:
        if self._lefts and self.pull.wanted:
            left = self._lefts[0] if len(self._lefts) == 1 else torch.cat(self._lefts, 1)
            self._lefts = []
            right = self._vectors(np.concatenate(self._rights, 1))
            self.pull.add(self.K.gradients(left, right, wanted=self.pull.wanted))
        self.pull.add_between_centers(torch.from_numpy((self._in_between + self._in_between.T) / 2))
        return Gradient(self.in_penalty, *self.pull.result())

    # Traces.

    def prior_trace(self) -> float:
        diagonal = self.K.prior_diagonal()
        return float(diagonal.sum() if self.weights is None else as_numpy(self.weights, np.float64)[:, 0] @ diagonal)

    def sampled_trace(self) -> float:
        """Tr(WK̃) from a sample of the rows."""
        n, m = self.K.shape
        count = min(n, max(1000, m) if self.method.sample is None else self.method.sample)
        chosen = np.sort(self.random.choice(n, count, replace=False))
        self._few = self.K.rows(chosen).widened()
        half = torch.linalg.solve_triangular(self._lower, to_tensor(self._few.to_dense()).cpu().T, upper=False)
        counts = torch.full((count,), n / count, dtype=torch.float64)
        if self.weights is not None:
            counts *= self.weights[torch.from_numpy(chosen).to(self.device), 0].cpu().double()
        self._counts, self._half = counts, half
        return float((half.square() * counts).sum())

    @cached_property
    def _lower(self) -> Tensor:
        """The lower factor of k(C, C)."""
        return Whitening.of(self.K).lower(torch.device("cpu"))

    def pull_sampled_trace(self, factor: float) -> None:
        dual = torch.linalg.solve_triangular(self._lower.T, self._half, upper=True)
        weighted = dual * (factor * self._counts)
        self.pull.add(self._few.row_gradients(slice(None), 2 * weighted.T, wanted=self.pull.wanted))
        self.add_between(-weighted.numpy(), dual.numpy())

    def log_determinant(self) -> float:
        """log det(K̃ + NλI), by Lanczos quadrature of the logarithm of the preconditioned system."""
        m, penalty = len(self.among), self.problem.penalty
        self._signs = self.random.choice([-1.0, 1.0], (m, self.method.probes))
        inner = log_quadrature(self.equations.operator, self._signs, self.method.max_iterations)
        preconditioner = 2 * np.log(self.equations.pair.diagonal_a).sum()
        return float(preconditioner + inner + self.total * np.log(self.total * penalty) - m * np.log(penalty))

    def pull_log_determinant(self, factor: float) -> None:
        """Tr(B⁻¹ ∇B) - Tr(k(C, C)⁻¹ ∇k(C, C)), with probes whose covariance is that of the preconditioner."""
        m, penalty = len(self.among), self.problem.penalty
        result = conjugate_gradients(
            self.equations.operator,
            self._signs,
            tolerance=self.method.tolerance,
            max_iterations=self.method.max_iterations,
        )
        solved, plain = self.equations.coefficients(result.solution), self.equations.coefficients(self._signs)
        share = factor / self.method.probes
        for left, right in ((solved, plain), (plain, solved)):
            image = self.values(left)
            weighted = image if self.weights is None else self.weights * image
            self.add_product(weighted * (share / self.total), right)
        self.add_between(share * penalty * solved, plain)
        inverse = torch.cholesky_inverse(self._lower).numpy()
        self._in_between -= factor * inverse
        trace = float(np.einsum("ij,ij->", solved, self.among @ plain)) * share
        self.in_penalty += trace + factor * (self.total - m) / penalty
