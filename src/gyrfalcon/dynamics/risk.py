"""The squared error of forecasts of left-out runs, and its derivatives in the kernel's parameters and the penalty.

The error is a function of small matrices: the moments of each part of the runs, and k(C, C). PyTorch differentiates it
in these. A second pass over the frames then takes the derivatives in moments to derivatives in kernel values, and the
engine of the kernel matrix takes those to the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import LaggedMoments

from .gather import gather_parts
from .lift import Lift
from .runs import Frames, Runs


@dataclass(frozen=True)
class LeftOutRisk:
    """Σ ‖x′ - x̂‖² over forecasts of each part of some runs by models of the others.

    Parameters
    ----------
    runs : Runs
        Without inputs.
    centers : array of shape (m, d)
    parts : array of int of shape (runs,)
        From 0 to count - 1.
    count : int
    method : "rrr", "pcr" or "krr"
    rank : int or None
    lag : int
    horizons : sequence of int
        In frames, multiples of the lag.
    memory_budget : int, optional
    """

    runs: Runs
    centers: Array
    parts: Array
    count: int
    method: str
    rank: int | None
    lag: int
    horizons: Sequence[int]
    memory_budget: int | None = None

    def __call__(self, kernel: Kernel, penalty: float) -> tuple[float, dict[str, Array], float]:
        """The risk, its derivatives in the kernel's parameters by name, and the one in the penalty.

        ValueError if it cannot be computed, since S + penalty is singular to rounding.
        """
        lift = Lift(kernel, self.centers, memory_budget=self.memory_budget)
        lags = sorted({self.lag, *self.horizons})
        gathered = gather_parts(self.runs, lift, lags, self.parts, self.count)
        small = [_Small.of(part, lags, self.lag) for part in gathered]
        metric = torch.eye(lift.rank, dtype=torch.float64, requires_grad=True)
        lam = torch.tensor(float(penalty), dtype=torch.float64, requires_grad=True)
        try:
            value = self._value(small, metric, lam)
        except RuntimeError as error:
            raise ValueError(f"penalty={penalty!r} leaves a singular system: choose a larger one") from error
        value.backward()  # type: ignore[no-untyped-call]
        found = self._pull(lift, small, _gradient(metric))
        return float(value.detach()), found, float(_gradient(lam))

    def _value(self, small: list[_Small], metric: Tensor, penalty: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for fold, held in enumerate(small):
            others = [part for place, part in enumerate(small) if place != fold]
            pairs = sum(part.pairs for part in others)
            if pairs == 0:
                continue
            S = sum(part.before[self.lag] for part in others) / pairs
            B = sum(part.between for part in others) / pairs
            T = sum(part.targets[self.lag] for part in others) / pairs
            advance = _regression(S, B, metric, penalty, self.method, self.rank)
            V, step = advance(T), 1
            for horizon in sorted(self.horizons):
                while step < horizon // self.lag:
                    V, step = advance(B @ V), step + 1
                explained = 2 * (V * held.targets[horizon]).sum() - (V * (held.before[horizon] @ V)).sum()
                total = total + held.squares[horizon] - explained
        return total

    def _pull(self, lift: Lift, small: list[_Small], in_metric: Array) -> dict[str, Array]:
        """Derivatives in the kernel's parameters, by a second pass over the frames."""
        E = lift.whitening.vectors  # held fixed: z = Eᵀk(C, x), and the metric of its functions is Eᵀk(C, C)E
        found: dict[str, Array] = {}
        _add(found, lift.parameter_gradients(None, E @ in_metric @ E.T))
        gradients = [part.gradients() for part in small]
        for window, first in _windows(self.runs, lift.block_rows, max(self.lag, *self.horizons)):
            Z = lift.block(window.states)
            in_z = np.zeros_like(Z)
            part = self.parts[window.runs]
            for lag in sorted({self.lag, *self.horizons}):
                later = np.arange(max(first, lag), len(Z))
                earlier = later - lag
                valid = (window.runs[earlier] == window.runs[later]) & window.whole[earlier] & window.whole[later]
                for place in np.unique(part[later[valid]]):
                    chosen = valid & (part[later] == place)
                    i, j = earlier[chosen], later[chosen]
                    given = gradients[place]
                    in_z[i] += Z[i] @ given.before[lag] + window.states[j] @ given.targets[lag].T
                    if lag == self.lag:
                        in_z[i] += Z[j] @ given.between.T
                        in_z[j] += Z[i] @ given.between
            _add(found, lift.parameter_gradients(window.states, in_z @ E.T))
        return found


@dataclass(frozen=True)
class _Small:
    """The moments of one part, as tensors that PyTorch keeps track of."""

    pairs: int
    before: dict[int, Tensor]
    targets: dict[int, Tensor]
    between: Tensor
    squares: dict[int, float]

    @classmethod
    def of(cls, moments: list[LaggedMoments], lags: Sequence[int], lag: int) -> _Small:
        named = dict(zip(lags, moments, strict=True))
        before = {key: _leaf(one.cross.before) for key, one in named.items()}
        targets = {key: _leaf(one.sums.cross) for key, one in named.items()}
        squares = {key: float(one.sums.squares.sum()) for key, one in named.items()}
        return cls(named[lag].count, before, targets, _leaf(named[lag].cross.between), squares)

    def gradients(self) -> _SmallGradients:
        symmetric = {lag: _gradient(tensor) for lag, tensor in self.before.items()}
        return _SmallGradients(
            {lag: matrix + matrix.T for lag, matrix in symmetric.items()},
            {lag: _gradient(tensor) for lag, tensor in self.targets.items()},
            _gradient(self.between),
        )


@dataclass(frozen=True)
class _SmallGradients:
    before: dict[int, Array]
    targets: dict[int, Array]
    between: Array


def _regression(S: Any, B: Any, metric: Tensor, penalty: Tensor, method: str, rank: int | None) -> Any:
    """What takes E[z gᵀ] to coefficients of z: the regressions of `operator.solve`, for any metric of functions."""
    if method == "pcr":
        L = torch.linalg.cholesky(metric)
        H = _whitened(S, L)
        P = _leading(H, rank)
        restricted = P @ H @ P + penalty * P + torch.eye(len(P), dtype=P.dtype) - P
        return lambda T: _back(L, P @ torch.linalg.solve(restricted, P @ _forth(L, T)))
    L = torch.linalg.cholesky(S + penalty * metric)
    if method == "krr":
        return lambda T: _back(L, _forth(L, T))
    half = _forth(L, B)
    P = _leading(half @ torch.linalg.solve(metric, half.T), rank)
    return lambda T: _back(L, P @ _forth(L, T))


def _forth(L: Tensor, T: Tensor) -> Tensor:
    found: Tensor = torch.linalg.solve_triangular(L, T, upper=False)
    return found


def _back(L: Tensor, T: Tensor) -> Tensor:
    found: Tensor = torch.linalg.solve_triangular(L.T, T, upper=True)
    return found


def _whitened(S: Tensor, L: Tensor) -> Tensor:
    return _forth(L, _forth(L, S).T)


def _leading(H: Tensor, rank: int | None) -> Tensor:
    """The projection onto the leading eigenvectors of H."""
    if rank is None or rank >= len(H):
        return torch.eye(len(H), dtype=H.dtype)
    found: Tensor = _Projection.apply(H, rank)  # type: ignore[no-untyped-call]
    return found


class _Projection(torch.autograd.Function):
    """P = QQᵀ for the leading eigenvectors Q of H. Only the gap behind the last of them matters for its derivative:
    dP = Q F∘(QᵀdH R) Rᵀ and its transpose, for the other eigenvectors R and Fᵢⱼ = 1/(μᵢ - μⱼ)."""

    @staticmethod
    def forward(ctx: Any, H: Tensor, rank: int) -> Tensor:
        values, vectors = torch.linalg.eigh((H + H.T) / 2)
        ctx.save_for_backward(values, vectors)
        ctx.rank = rank
        Q: Tensor = vectors[:, -rank:]
        return Q @ Q.T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        values, vectors = ctx.saved_tensors
        Q, R = vectors[:, -ctx.rank :], vectors[:, : -ctx.rank]
        gaps = values[-ctx.rank :, None] - values[None, : -ctx.rank]
        tiny = torch.finfo(gaps.dtype).eps * values[-1].abs()
        inner = (Q.T @ (gradient + gradient.T) @ R) / torch.clamp(gaps, min=float(tiny))
        pulled = Q @ inner @ R.T
        return (pulled + pulled.T) / 2, None


def _windows(runs: Runs, rows: int, reach: int) -> Iterator[tuple[Frames, int]]:
    """Frames preceded by those before them as far as the reach, and where new ones begin."""
    kept: Frames | None = None
    for block in runs.blocks(rows):
        joined, first = block, 0
        if kept is not None:
            first = len(kept.runs)
            parts = [(getattr(kept, name), getattr(block, name)) for name in ("states", "runs", "whole")]
            states, numbers, whole = (np.concatenate(part) for part in parts)
            joined = block._replace(states=states, runs=numbers, whole=whole)
        yield joined, first
        last = slice(max(0, len(joined.runs) - reach), None)
        kept = joined._replace(states=joined.states[last], runs=joined.runs[last], whole=joined.whole[last])


def _leaf(array: Array) -> Tensor:
    return torch.tensor(np.ascontiguousarray(array), dtype=torch.float64, requires_grad=True)


def _gradient(tensor: Tensor) -> Array:
    return np.zeros(tuple(tensor.shape)) if tensor.grad is None else tensor.grad.numpy()


def _add(found: dict[str, Array], more: dict[str, Array]) -> None:
    for name, value in more.items():
        found[name] = found.get(name, 0.0) + value
