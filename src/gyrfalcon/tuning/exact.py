"""Objectives evaluated exactly, at the price of n·m²: two passes over blocks of rows, in float64, by the chain rule.

In the features Z = K T⁻¹, TᵀT = k(C, C), every objective is a function of the moments ZᵀZ/n and ZᵀY/n of a few parts
of the rows. Autograd differentiates that small function; what lies between the moments and K is done here, block of
rows by block, so that nothing of the size of K is stored unless it is small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import to_tensor
from gyrfalcon.matrix.engine import add_up
from gyrfalcon.moments import Whitening
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.threads import one_thread_each, take_one_thread, threads_to_share

from . import full
from .folds import Folds
from .objectives.base import Array, Criterion, Evaluation, Gradient, Statistics, evaluation
from .pull import Pull, cholesky_backward

R = TypeVar("R")

ROWS = 2048  # of Z that are made together
WORTH_THREADS = 100_000  # entries of K, below which starting threads costs more than they save
KEPT = 4  # the share of the memory budget, as a divisor, that Z may take so as not to be made twice


@dataclass(frozen=True)
class Exact:
    """Evaluate objectives with exact traces and factorizations.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> sorted(gf.tuning.SGPR().evaluate(problem, gf.tuning.Exact()).gradient.parameters)
    ['length_scale']
    """

    @one_thread_each
    def criterion(self, problem: LeastSquares, objective: Criterion, *, gradient: bool) -> Evaluation:
        if full.applies(problem):
            return full.criterion(problem, objective, gradient=gradient)
        pass_ = Pass(problem)
        moments, trace = pass_.moments(), pass_.prior_trace()
        with torch.enable_grad():
            leaves = _leaves(moments.second, moments.first, torch.tensor(problem.penalty, dtype=torch.float64), trace)
            terms = objective.terms(_statistics(leaves, moments.square, problem.total_weight))
            value = torch.stack(list(terms.values())).sum()
            found = evaluation(value, terms)
            if not gradient:
                return found
            in_second, in_first, in_penalty, in_trace = _gradients(value, leaves)
        pulled = pass_.pull([in_second], [in_first], [moments], in_trace=float(in_trace))
        return found._replace(gradient=Gradient(float(in_penalty), *pulled))

    @one_thread_each
    def validation(self, problem: LeastSquares, folds: Folds, *, gradient: bool) -> Evaluation:
        if full.applies(problem):
            return full.validation(problem, folds, gradient=gradient)
        pass_ = Pass(problem)
        count = int(folds.labels.max()) + 1
        parts = pass_.moments_by_part(torch.from_numpy(folds.labels).to(pass_.device), count)
        with torch.enable_grad():
            penalty = torch.tensor(problem.penalty, dtype=torch.float64, requires_grad=True)
            seconds = _leaves(*(part.second for part in parts))
            firsts = _leaves(*(part.first for part in parts))
            errors, weight = [], 0.0
            for fold in folds.held:
                others = [i for i in range(count) if i != fold]
                left = sum(parts[i].total for i in others)
                if left == 0 or parts[fold].total == 0:
                    continue
                second = torch.stack([seconds[i] for i in others]).sum(0) / left
                first = torch.stack([firsts[i] for i in others]).sum(0) / left
                v = torch.cholesky_solve(first, factor(second, penalty))
                errors.append(dataclasses.replace(parts[fold], second=seconds[fold], first=firsts[fold]).squares(v))
                weight += parts[fold].total
            if not errors:
                raise ValueError("weights: no row that has any is left on one side of the split")
            value = torch.stack(errors).sum() / (weight * problem.Y.shape[1])
            found = evaluation(value, {"error": value})
            if not gradient:
                return found
            in_penalty, *rest = _gradients(value, (penalty, *seconds, *firsts))
        # The parts are sums, not means: their derivatives are those of means over a total of one.
        sums = [Moments(part.second, part.first, part.square, 1.0, part.rows) for part in parts]
        pulled = pass_.pull(rest[:count], rest[count:], sums)
        return found._replace(gradient=Gradient(float(in_penalty), *pulled))

    @one_thread_each
    def leave_one_out(self, problem: LeastSquares, *, gradient: bool) -> Evaluation:
        if full.applies(problem):
            return full.leave_one_out(problem, gradient=gradient)
        pass_ = Pass(problem)
        moments, total = pass_.moments(), problem.total_weight
        with torch.enable_grad():
            leaves = _leaves(moments.second, moments.first, torch.tensor(problem.penalty, dtype=torch.float64))
            root = factor(leaves[0], leaves[2])
            solved = torch.cholesky_solve(leaves[1], root), torch.cholesky_inverse(root)
        v, inverse = _leaves(*solved)

        def error(rows: slice, Z: Tensor) -> Tensor:
            Y = pass_.targets(rows)
            leverage = (Z * (inverse @ Z)).sum(0) / total
            return ((Y.T - v.T @ Z) / (1 - leverage)).square().sum() / (total * Y.shape[1])

        def by_solution(rows: slice, Z: Tensor) -> tuple[Tensor, ...]:
            with torch.enable_grad():
                part = error(rows, Z)
                return part.detach(), *(torch.autograd.grad(part, (v, inverse)) if gradient else ())

        def by_features(rows: slice, Z: Tensor) -> Tensor:
            with torch.enable_grad():
                (Z,) = _leaves(Z)
                return torch.autograd.grad(error(rows, Z), Z)[0]

        value, *rest = add_up(pass_.walk(by_solution))
        found = evaluation(value, {"error": value})
        if not gradient:
            return found
        in_second, in_first, in_penalty = torch.autograd.grad(solved, leaves, rest)
        pulled = pass_.pull([in_second], [in_first], [moments], direct=by_features)
        return found._replace(gradient=Gradient(float(in_penalty), *pulled))


@dataclass(frozen=True)
class Moments:
    """Σ wzzᵀ / total, Σ wzyᵀ / total and Σ wy² (per total and output, for all rows) of some rows."""

    second: Tensor
    first: Tensor
    square: Tensor
    total: float
    rows: Tensor | None  # which, or all

    def squares(self, v: Tensor) -> Tensor:
        """Σ w (y - zᵀv)², of sums."""
        return self.square - 2 * (self.first * v).sum() + (v * (self.second @ v)).sum()


class Pass:
    """The features of a problem, block by block, and the way back from derivatives in their moments to K."""

    def __init__(self, problem: LeastSquares):
        self.problem = problem if problem.K.dtype == torch.float64 else problem.widened() or problem
        self.K = self.problem.K
        self.device = self.K.device
        n, m = self.K.shape
        self.L = Whitening.of(self.K).lower(self.device)
        w = self.problem.weights
        self.roots = None if w is None else w[:, 0].double().sqrt()
        budget = self.K.memory_budget
        self._threads = threads_to_share() if self.device.type == "cpu" else 1
        self._step = max(1, min(-(-n // self._threads), ROWS, budget // (32 * self._threads * max(1, m))))
        self._keeps = 8 * n * m <= budget // KEPT
        self._kept: dict[int, Tensor] = {}

    def walk(self, work: Callable[[slice, Tensor], R]) -> Iterator[R]:
        """What `work` makes of a slice of the rows and its Zᵀ, each row times the root of its weight, in order."""
        n = self.K.shape[0]
        starts = range(0, n, self._step)

        def at(start: int) -> R:
            rows = slice(start, min(n, start + self._step))
            Z = self._kept.get(start)
            if Z is None:
                block = to_tensor(self.K.block(rows)).double().T
                if self.roots is not None:
                    block = block * self.roots[rows]
                Z = torch.linalg.solve_triangular(self.L, block, upper=False)
                if self._keeps:
                    self._kept[start] = Z
            return work(rows, Z)

        if self._threads == 1 or len(starts) < 2 or n * self.K.shape[1] < WORTH_THREADS:
            yield from map(at, starts)
            return
        with ThreadPoolExecutor(self._threads, initializer=take_one_thread) as pool:
            for first in range(0, len(starts), self._threads):  # so that no more blocks exist than threads
                yield from pool.map(at, starts[first : first + self._threads])

    def targets(self, rows: slice) -> Tensor:
        Y = self.problem.Y[rows].double()
        return Y if self.roots is None else self.roots[rows, None] * Y

    def moments(self) -> Moments:
        (part,) = self.moments_by_part(torch.zeros(self.K.shape[0], dtype=torch.int64, device=self.device), 1)
        total, outputs = self.problem.total_weight, self.problem.Y.shape[1]
        square = part.square / (total * outputs) + float(np.mean(self.problem.floor))
        return Moments(part.second / total, part.first / total, square, total, None)

    def moments_by_part(self, labels: Tensor, count: int) -> list[Moments]:
        """Sums over the rows of each label."""

        def sums(rows: slice, Z: Tensor) -> tuple[Tensor, ...]:
            Y, here = self.targets(rows), labels[rows]
            ones = torch.ones(len(Y), dtype=Y.dtype, device=Y.device) if self.roots is None else self.roots[rows]
            found = []
            for part in range(count):
                at = (here == part).nonzero()[:, 0] if count > 1 else slice(None)
                Zp, Yp = Z[:, at], Y[at]
                found.append((Zp @ Zp.T, Zp @ Yp, Yp.square().sum(), ones[at].square().sum()))
            return tuple(torch.stack(parts) for parts in zip(*found, strict=True))

        second, first, square, total = add_up(self.walk(sums))
        return [
            Moments(second[part], first[part], square[part], float(total[part]), labels == part)
            for part in range(count)
        ]

    def prior_trace(self) -> Tensor:
        """Tr K, rows counted by weight."""
        diagonal = torch.from_numpy(self.K.prior_diagonal()).to(self.device)
        return (diagonal if self.roots is None else self.roots.square() * diagonal).sum()

    def pull(
        self,
        in_seconds: list[Tensor],
        in_firsts: list[Tensor],
        moments: list[Moments],
        *,
        in_trace: float = 0.0,
        direct: Callable[[slice, Tensor], Tensor] | None = None,
    ) -> tuple[dict[str, Array], Array | None]:
        """Derivatives in the kernel's parameters and the centers from those in the moments of parts of the rows.

        `direct` gives derivatives in Zᵀ itself, for a slice of the rows.
        """
        twice = [g + g.T for g in in_seconds]
        inverse = [1 / part.total for part in moments]
        pairs = list(zip(twice, in_firsts, moments, inverse, strict=True))
        # Z = K T⁻¹, L = Tᵀ: derivatives in Z become derivatives in K by L⁻ᵀ, and in L by -L⁻ᵀ(in_Zᵀ Z).
        in_k_from = [
            (
                torch.linalg.solve_triangular(self.L.T, g * scale, upper=True),
                torch.linalg.solve_triangular(self.L.T, h * scale, upper=True),
                part.rows,
            )
            for g, h, part, scale in pairs
        ]
        in_z_by_z = torch.stack([g @ part.second + h @ part.first.T for g, h, part, _ in pairs]).sum(0)
        total = Pull(self.K)

        def derivatives(rows: slice, Z: Tensor) -> tuple[Any, Tensor | None]:
            Y, extra = self.targets(rows), None
            in_block = torch.zeros_like(Z)
            for g, h, chosen in in_k_from:
                at = slice(None) if chosen is None else chosen[rows].nonzero()[:, 0]
                in_block[:, at] = g @ Z[:, at] + h @ Y[at].T
            if direct is not None:
                in_z = direct(rows, Z)
                in_block += torch.linalg.solve_triangular(self.L.T, in_z, upper=True)
                extra = in_z @ Z.T
            if self.roots is not None:
                in_block *= self.roots[rows]
            return self.K.row_gradients(
                rows, in_block.T.to(self.K.dtype), wanted=total.wanted
            ) if total.wanted else None, extra

        for gradients, extra in self.walk(derivatives):
            if gradients is not None:
                total.add(gradients)
            if extra is not None:
                in_z_by_z += extra
        in_l = -torch.linalg.solve_triangular(self.L.T, in_z_by_z, upper=True)
        total.add_between_centers(cholesky_backward(self.L, in_l))
        if in_trace:
            total.add_diagonal(in_trace, self.problem.weights)
        return total.result()


def factor(second: Tensor, penalty: Tensor) -> Tensor:
    """The lower factor of moments + penalty·I, in reach of autograd."""
    eye = torch.eye(len(second), dtype=second.dtype, device=second.device)
    floor = torch.finfo(second.dtype).eps * float(second.detach().diagonal().sum())
    root: Tensor = torch.linalg.cholesky(second + torch.clamp_min(penalty, floor) * eye)
    return root


def _statistics(leaves: tuple[Tensor, ...], square: Tensor, total: float) -> Statistics:
    second, first, penalty, trace = leaves
    m, outputs = first.shape
    root = factor(second, penalty)
    v = torch.cholesky_solve(first, root)
    half = torch.linalg.solve_triangular(root, torch.eye(m, dtype=root.dtype, device=root.device), upper=False)
    return Statistics(
        total=total,
        penalty=penalty,
        risk=square - (first * v).sum() / outputs,
        norm=v.square().sum() / outputs,
        freedom=m - penalty * half.square().sum(),
        defect=trace - total * second.diagonal().sum(),
        log_determinant=2 * root.diagonal().log().sum() + total * (total * penalty).log() - m * penalty.log(),
    )


def _leaves(*values: Tensor) -> tuple[Tensor, ...]:
    return tuple(value.detach().requires_grad_() for value in values)


def _gradients(value: Tensor, leaves: tuple[Tensor, ...]) -> list[Tensor]:
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if part is None else part for leaf, part in zip(leaves, found, strict=True)]
