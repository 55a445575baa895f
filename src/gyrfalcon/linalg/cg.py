"""Conjugate gradients for many right-hand sides at once, each with its own step and its own end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


ROUNDING = 1e-12  # relative rise of a value that counts as one
VALUE_NOISE = 8 * np.finfo(float).eps  # of the value at zero: what rounding adds to a value
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
        Whether the value rose at some point, or a direction had no positive curvature, which only rounding can cause;
        such columns stop.
    """

    solution: Array
    residuals: Array
    values: Array
    converged: Array
    rounded: Array

    @property
    def iterations(self) -> int:
        return len(self.residuals) - 1


@dataclass
class CGState:
    """Where conjugate gradients stand between two iterations: all that the next one reads, so that a solve that goes on
    from here ends as it would have, bit for bit.

    `best` are those x, by column, whose residual is known to be b - A x and whose value is lowest; `checked` is the
    last iteration at which that was looked at, `calm` counts iterations that promised no further fall.
    """

    x: Array
    residual: Array
    direction: Array
    squared: Array
    history: list[Array]
    values: list[Array]
    best: Array
    best_value: Array
    done: Array
    rounded: Array
    calm: Array
    active: Array
    iteration: int = 0
    checked: int = 0

    def arrays(self) -> dict[str, Array]:
        """The state as arrays of its own, in the memory order that sums over them depend on."""
        return {field.name: np.array(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> CGState:
        """The state that `arrays` described."""
        found: dict[str, Any] = {field.name: np.array(arrays[field.name]) for field in fields(cls)}
        for name in ("history", "values"):
            found[name] = list(found[name])
        return cls(**found | {name: int(found[name]) for name in ("iteration", "checked")})


def conjugate_gradients(
    operator: Callable[[Array], Array],
    right: Array,
    *,
    start: Array | None = None,
    tolerance: float | Array = 1e-7,
    max_iterations: int = 100,
    replace_every: int = 25,
    values_at_zero: Array | None = None,
    near_identity: bool = False,
    callback: Callable[[int, Array, Array, Array], bool] | None = None,
    resume: CGState | None = None,
    keep: Callable[[CGState], None] | None = None,
) -> CGResult:
    """Solve A x = b for each column of b, A symmetric and positive definite: minimize xᵀA x - 2 bᵀx.

    A column stops when its residual falls to `tolerance` times the norm of b, or in a direction of no positive
    curvature, which only rounding can cause. The operator is applied to all columns that have not stopped together, so
    that one pass over the data serves them all.

    Every `replace_every` iterations the recurrence for the residual is replaced by b - A x, so that it does not drift,
    and a column whose value has not fallen since the last time stops, as does one whose value rises: rounding has taken
    over. Of the iterates looked at in this way, and the last, the best is returned.

    If `values_at_zero` are given, what is minimized is those plus xᵀA x - 2 bᵀx, of which the minimum is positive, and
    a column stops when the value is expected, three times in a row, to fall by less than `tolerance` times itself in
    all iterations to come. If A is near the identity the square of the residual tells that at once.

    Parameters
    ----------
    operator : callable
        v ↦ A v for a matrix of columns.
    right : array of shape (m, t)
        b.
    tolerance : float or array of shape (t,)
    start : array of shape (m, t), optional
        Where to begin; zero if not given.
    values_at_zero : array of shape (t,), optional
    near_identity : bool
        Whether A is well preconditioned.
    callback : callable (iteration, x, relative residuals, values) -> bool, optional
        Called after each iteration; returning True ends the solve.
    resume : CGState, optional
        Of an earlier solve of the same equations, to go on from; the solve changes it.
    keep : callable (CGState) -> None, optional
        Given the state after each iteration that is not the callback's last; the next one changes it.
    """
    norms = np.linalg.norm(right, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    zero = np.zeros(right.shape[1]) if values_at_zero is None else values_at_zero
    s = resume or _begin(operator, right, start, scale, zero, tolerance if values_at_zero is None else 0.0)
    while s.iteration < max_iterations and s.active.any():
        s.iteration += 1
        image = _apply(operator, s.direction, s.active)
        curvature = np.einsum("ij,ij->j", s.direction, image)
        s.rounded |= s.active & (curvature <= 0) & (s.squared > 0)
        s.active &= curvature > 0
        step = np.where(s.active, s.squared, 0.0) / np.where(s.active, curvature, 1.0)
        s.x += step * s.direction
        s.residual -= step * image
        if s.iteration % replace_every == 0:
            s.checked = s.iteration
            s.residual = right - operator(s.x)
            value = zero - np.einsum("ij,ij->j", s.x, right + s.residual)
            better = value < s.best_value
            s.best = np.where(better, s.x, s.best)
            s.best_value = np.where(better, value, s.best_value)
            s.rounded |= s.active & ~better
        fresh = np.where(s.active, np.einsum("ij,ij->j", s.residual, s.residual), s.squared)
        ratio = np.where(s.active, fresh / np.where(s.squared > 0, s.squared, 1.0), 0.0)
        s.direction = s.residual + ratio * s.direction
        s.squared = fresh
        s.history.append(np.sqrt(s.squared) / scale)
        s.values.append(zero - np.einsum("ij,ij->j", s.x, right + s.residual))
        before, now = s.values[-2:]
        s.rounded |= s.active & (now - before > ROUNDING * (np.abs(before) + np.abs(zero)))
        if callback is not None and callback(s.iteration, s.x, s.history[-1], now):
            break
        if values_at_zero is None:
            s.done |= s.history[-1] <= tolerance
        elif near_identity:
            s.done |= _can_fall(s.values, s.history, scale) <= tolerance * np.maximum(now, np.finfo(float).eps * zero)
        elif s.iteration >= 2 * WINDOW:
            least = np.maximum(now, np.finfo(float).eps * zero)
            s.calm = np.where(_still_to_fall(s.values, VALUE_NOISE * zero) <= tolerance * least, s.calm + 1, 0)
            s.done |= s.calm >= WINDOW
        s.done &= ~s.rounded
        s.active &= ~s.done & ~s.rounded
        if keep is not None:
            keep(s)
    x, values = s.x, s.values
    if s.checked:
        last = values[-1]
        if s.checked < s.iteration:
            last = zero - np.einsum("ij,ij->j", x, 2 * right - operator(x))
        kept = last <= s.best_value
        if values_at_zero is None:  # values of converged columns differ by rounding alone
            kept |= s.done
        x = np.where(kept, x, s.best)
        values = [*values[:-1], np.where(kept, last, s.best_value)]
    return CGResult(x, np.array(s.history), np.array(values), s.done, s.rounded)


def _apply(operator: Callable[[Array], Array], vectors: Array, active: Array) -> Array:
    """The operator on those columns that still need it; zero in the others."""
    if active.all():
        return operator(vectors)
    image = np.zeros_like(vectors)
    image[:, active] = operator(vectors[:, active])
    return image


def _begin(
    operator: Callable[[Array], Array],
    right: Array,
    start: Array | None,
    scale: Array,
    zero: Array,
    tolerance: float | Array,
) -> CGState:
    x = np.zeros_like(right) if start is None else start.astype(right.dtype, copy=True)
    residual = right.copy() if start is None else right - operator(x)
    squared = np.einsum("ij,ij->j", residual, residual)
    history = [np.sqrt(squared) / scale]
    values = [zero - np.einsum("ij,ij->j", x, right + residual)]
    done = history[0] <= tolerance
    return CGState(
        x=x,
        residual=residual,
        direction=residual.copy(),
        squared=squared,
        history=history,
        values=values,
        best=x.copy(),
        best_value=values[0],
        done=done,
        rounded=np.zeros_like(done),
        calm=np.zeros(len(done), dtype=int),
        active=~done,
    )


def _can_fall(values: list[Array], residuals: list[Array], scale: Array) -> Array:
    """How much lower each value can get: twice the square of the residual, or more if that told too little before."""
    squares = np.square(np.array(residuals) * scale)
    falls = (np.array(values[:-1]) - values[-1]) / np.where(squares[:-1] > 0, squares[:-1], 1.0)
    return np.asarray(2 * np.maximum(1.0, falls.max(axis=0)) * squares[-1])


def _still_to_fall(values: list[Array], noise: Array) -> Array:
    """How much lower each value will get, if the falls go on as the last two did, by the same factor each time.

    A fall that is no larger than the noise of the values says that nothing is left.
    """
    earlier, later = (values[-1 - (k + 1) * WINDOW] - values[-1 - k * WINDOW] for k in (1, 0))
    ratio = later / np.where(earlier > 0, earlier, 1.0)
    slowing = (earlier > 0) & (ratio < 1)
    remaining = np.where(slowing, later * ratio / np.where(slowing, 1 - ratio, 1.0), np.inf)
    return np.where(later > noise, remaining, 0.0)
