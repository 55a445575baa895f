"""Conjugate gradients for many right-hand sides at once, each with its own step and its own end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CGResult:
    """Where conjugate gradients ended: the solution, the relative residual of each column at each iteration."""

    solution: Array
    residuals: Array
    converged: Array

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
    replace_every: int = 50,
    callback: Callable[[int, Array, Array], bool] | None = None,
) -> CGResult:
    """Solve A x = b for each column of b, A symmetric and positive definite.

    A column stops when its residual falls to `tolerance` times the norm of b, or when rounding has taken over: a
    direction of no positive curvature. The operator is applied to all columns together, as long as one is active, so
    that one pass over the data serves them all. Every `replace_every` iterations the recurrence for the residual is
    replaced by b - A x, so that it does not drift.

    Parameters
    ----------
    operator : callable
        v ↦ A v for a matrix of columns.
    right : array of shape (m, t)
        b.
    start : array of shape (m, t), optional
        Where to begin; zero if not given.
    callback : callable (iteration, x, relative residuals) -> bool, optional
        Called after each iteration; returning True ends the solve.
    """
    norms = np.linalg.norm(right, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    x = np.zeros_like(right) if start is None else start.astype(right.dtype, copy=True)
    residual = right.copy() if start is None else right - operator(x)
    direction = residual.copy()
    squared = np.einsum("ij,ij->j", residual, residual)
    history = [np.sqrt(squared) / scale]
    active = history[0] > tolerance
    for iteration in range(1, max_iterations + 1):
        if not active.any():
            break
        image = operator(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        active &= curvature > 0
        step = np.where(active, squared, 0.0) / np.where(active, curvature, 1.0)
        x += step * direction
        if iteration % replace_every == 0:
            residual = np.where(active, right - operator(x), residual)
        else:
            residual -= step * image
        fresh = np.where(active, np.einsum("ij,ij->j", residual, residual), squared)
        direction = residual + np.where(active, fresh / np.where(squared > 0, squared, 1.0), 0.0) * direction
        squared = fresh
        history.append(np.sqrt(squared) / scale)
        if callback is not None and callback(iteration, x, history[-1]):
            break
        active &= history[-1] > tolerance
    residuals = np.array(history)
    return CGResult(x, residuals, residuals[-1] <= tolerance)
