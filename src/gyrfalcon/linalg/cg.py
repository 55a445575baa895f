"""Conjugate gradients for many right-hand sides at once, each with its own step and its own end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


ROUNDING = 1e-12  # relative rise of a value that counts as one
WINDOW = 3  # iterations over which falls of the value are compared


@dataclass(frozen=True)
class CGResult:
    """Where conjugate gradients ended.

    Attributes
    ----------
    solution : array of shape (m, t)
    residuals : array of shape (iterations + 1, t)
        Relative norms of b - A x at the start and after each iteration.
    values : array of shape (iterations + 1, t)
        Of xᵀA x - 2 bᵀx, plus `values_at_zero` if those were given.
    converged : array of shape (t,)
    rounded : array of shape (t,)
        Whether the value rose at some point, which only rounding can cause; such columns stop.
    """

    solution: Array
    residuals: Array
    values: Array
    converged: Array
    rounded: Array

    @property
    def iterations(self) -> int:
        return len(self.residuals) - 1


def conjugate_gradients(
    operator: Callable[[Array], Array],
    right: Array,
    *,
    start: Array | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 100,
    replace_every: int = 25,
    values_at_zero: Array | None = None,
    callback: Callable[[int, Array, Array, Array], bool] | None = None,
) -> CGResult:
    """Solve A x = b for each column of b, A symmetric and positive definite: minimise xᵀA x - 2 bᵀx.

    A column stops when its residual falls to `tolerance` times the norm of b, or in a direction of no positive
    curvature, which only rounding can cause. The operator is applied to all columns together, as long as one is
    active, so that one pass over the data serves them all.

    Every `replace_every` iterations the recurrence for the residual is replaced by b - A x, so that it does not drift,
    and a column whose value has not fallen since the last time stops, as does one whose value rises: rounding has taken
    over. Of the iterates looked at in this way, and the last, the best is returned.

    If `values_at_zero` are given, what is minimised is those plus xᵀA x - 2 bᵀx, of which the minimum is positive, and
    a column stops when the value is expected, three times in a row, to fall by less than `tolerance` times itself in
    all iterations to come.

    Parameters
    ----------
    operator : callable
        v ↦ A v for a matrix of columns.
    right : array of shape (m, t)
        b.
    start : array of shape (m, t), optional
        Where to begin; zero if not given.
    values_at_zero : array of shape (t,), optional
    callback : callable (iteration, x, relative residuals, values) -> bool, optional
        Called after each iteration; returning True ends the solve.
    """
    norms = np.linalg.norm(right, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    zero = np.zeros(right.shape[1]) if values_at_zero is None else values_at_zero
    x = np.zeros_like(right) if start is None else start.astype(right.dtype, copy=True)
    residual = right.copy() if start is None else right - operator(x)
    direction = residual.copy()
    squared = np.einsum("ij,ij->j", residual, residual)
    history = [np.sqrt(squared) / scale]
    values = [zero - np.einsum("ij,ij->j", x, right + residual)]
    best, best_value = x.copy(), values[0]  # of those x whose residual is b - A x
    done = history[0] <= (tolerance if values_at_zero is None else 0.0)
    rounded, calm = np.zeros_like(done), np.zeros(len(done), dtype=int)
    active = ~done
    iteration, checked = 0, 0
    while iteration < max_iterations and active.any():
        iteration += 1
        image = operator(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        active &= curvature > 0
        step = np.where(active, squared, 0.0) / np.where(active, curvature, 1.0)
        x += step * direction
        residual -= step * image
        if iteration % replace_every == 0:
            checked = iteration
            residual = right - operator(x)
            value = zero - np.einsum("ij,ij->j", x, right + residual)
            better = value < best_value
            best = np.where(better, x, best)
            best_value = np.where(better, value, best_value)
            rounded |= active & ~better
        fresh = np.where(active, np.einsum("ij,ij->j", residual, residual), squared)
        direction = residual + np.where(active, fresh / np.where(squared > 0, squared, 1.0), 0.0) * direction
        squared = fresh
        history.append(np.sqrt(squared) / scale)
        values.append(zero - np.einsum("ij,ij->j", x, right + residual))
        rounded |= active & (values[-1] - values[-2] > ROUNDING * (np.abs(values[-2]) + np.abs(zero)))
        if callback is not None and callback(iteration, x, history[-1], values[-1]):
            break
        if values_at_zero is None:
            done |= history[-1] <= tolerance
        elif iteration >= 2 * WINDOW:
            least = np.maximum(values[-1], np.finfo(float).eps * zero)
            calm = np.where(_still_to_fall(values) <= tolerance * least, calm + 1, 0)
            done |= calm >= WINDOW
        done &= ~rounded
        active &= ~done & ~rounded
    if checked:
        if checked < iteration:
            values[-1] = zero - np.einsum("ij,ij->j", x, 2 * right - operator(x))
        kept = values[-1] <= best_value
        x = np.where(kept, x, best)
        values[-1] = np.where(kept, values[-1], best_value)
    return CGResult(x, np.array(history), np.array(values), done, rounded)


def _still_to_fall(values: list[Array]) -> Array:
    """How much lower each value will get, if the falls go on as the last two did, by the same factor each time."""
    earlier, later = (values[-1 - (k + 1) * WINDOW] - values[-1 - k * WINDOW] for k in (1, 0))
    ratio = later / np.where(earlier > 0, earlier, 1.0)
    slowing = (earlier > 0) & (ratio < 1)
    remaining = np.where(slowing, later * ratio / np.where(slowing, 1 - ratio, 1.0), np.inf)
    return np.where(later > 0, remaining, 0.0)
